//! The types of agentctl, and the one function that turns evidence into a verdict.
//!
//! Everything here is pure: no files, no processes, no clock, no environment, no async. The evidence of storage and kernel
//! comes in as data, and the status of each session goes out as data.

pub mod claim;
pub mod directory;
pub mod error;
pub mod event;
pub mod evidence;
pub mod fuse;
pub mod launch;
pub mod notice;
pub mod process;
pub mod search;
pub mod session;
pub mod status;
pub mod survey;
pub mod text;
pub mod timeline;
pub mod usage;
pub mod way;

pub use claim::{Claim, Joined, LiveReport, Stray, Tie};
pub use directory::{DirectoryHolder, LockType};
pub use error::{Error, ErrorKind};
pub use event::{Event, EventKind, View};
pub use evidence::{Evidence, Fact, Witness};
pub use fuse::{Fuse, OnExpire, Period, PlannedResume, Spent, Stage};
pub use launch::exit::{EndCause, EndedBy, EndedLaunch, ExitMatch, LaunchExit, SeenExit};
pub use launch::intent::{Conversation, Intent, Permission};
pub use launch::plan::{CleanSignal, FirstWords, IdSource, SpawnPlan, Stdin, StopWay};
pub use process::{
    Environ, HeldLock, KernelView, Launched, NamespaceView, Observed, OpenFile, PidNamespace, Process,
    ProcessHead, ProcessRef, RootMembership, Witnesses,
};
pub use session::transcript::{Entry, EntryKind, Role};
pub use session::{
    Capability, Facts, Found, LaunchInfo, Meta, NativeSession, OptionKind, OptionScope, Parent, Pending,
    PendingKind, PendingOption, ProcessEntry, ProcessRole, Relation, Session, SessionKey, Stamp, Tokens,
};
pub use status::{
    Limit, Liveness, Outcome, Owner, Owners, RemoteState, Rule, Status, Turn, TurnState, Verdict, derive,
    prevailing,
};
pub use survey::host::{HostList, HostReport, Road};
pub use survey::{
    Coverage, CoverageKind, Ended, Harvest, OwnerIdentity, OwnerProcess, Registration, RemoteReport,
    SourceReport, Survey, Surveyed,
};
pub use usage::Call;
pub use way::Way;
