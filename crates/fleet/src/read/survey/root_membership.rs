//! Determines whether a process works under a source's root, as far as the kernel can tell. The answer decides twice:
//! before a process counts as the owner of a session, and again before it is signalled.

use std::path::Path;

use agentctl_adapters::Root;
use agentctl_adapters::agents::acp;
use agentctl_model::{Observed, Process, RootMembership};
use agentctl_process::{InspectRequest, Kernel};

use crate::Source;
use crate::keep::launches::MARK;

/// Decides by the process's variables, else by a file below the root that it has open for writing.
pub(crate) fn root_membership(kernel: &dyn Kernel, source: &Source, process: &Process) -> RootMembership {
    let own = process.environ.seen().and_then(|environ| source.adapter.root(environ));
    if own.is_some_and(|own| is_same_root(kernel, process, &own, &source.root)) {
        return RootMembership::Ours;
    }
    // Where an agent keeps no files open, searching them is useless: its variables have already said where it works.
    let wanted = process.environ.seen().is_none() || source.adapter.card().looks.open_files;
    let looked = match &process.open_files {
        Observed::Unobservable(_) if wanted => {
            kernel.inspect(&process.head, InspectRequest { open_files: true, ..InspectRequest::default() })
        }
        _ => None,
    };
    let files = looked.as_ref().map_or(&process.open_files, |looked| &looked.open_files);
    if files
        .seen()
        .is_some_and(|files| files.iter().any(|file| file.writable && is_below(&file.path, &source.root)))
    {
        return RootMembership::Ours;
    }
    match process.environ.why_not() {
        Some(why) => RootMembership::Unseen(why.to_owned()),
        None => RootMembership::Elsewhere,
    }
}

pub(crate) fn is_same_root(kernel: &dyn Kernel, process: &Process, own: &Root, ours: &Root) -> bool {
    let same = |theirs: &Path, ours: &Path| kernel.is_same_folder(process.head.process, theirs, ours);
    let stores = match (&own.store, &ours.store) {
        (None, None) => true,
        // A store may be a file (a database); then its name and its directory decide.
        (Some(own), Some(ours)) => {
            own == ours
                || same(own, ours)
                || (own.file_name() == ours.file_name()
                    && own.parent().zip(ours.parent()).is_some_and(|(own, ours)| same(own, ours)))
        }
        _ => false,
    };
    stores && same(&own.path, &ours.path)
}

/// The kernel reports open files by their real paths.
fn is_below(file: &Path, root: &Root) -> bool {
    let below = |folder: &Path| {
        file.starts_with(folder)
            || agentctl_files::real_path_within(folder).is_some_and(|real| file.starts_with(real))
    };
    below(&root.path) || root.store.as_deref().is_some_and(below)
}

/// Returns `Ok` as the proof that this process may be signalled as the owner of a session of this source, or else the
/// reason why not.
pub(crate) fn may_own(kernel: &dyn Kernel, source: &Source, process: &Process) -> Result<(), String> {
    let title = source.adapter.card().title;
    if acp::is_name(source.name()) {
        // The launch record names its process; it may be called anything, and has no root.
        let is_marked = process.variable(MARK).is_some();
        return if is_marked { Ok(()) } else { Err("it does not carry the mark of a launch".to_owned()) };
    }
    if !source.adapter.recognises(&process.head) {
        return Err(format!("it is not known as {title}"));
    }
    match root_membership(kernel, source, process) {
        RootMembership::Ours => Ok(()),
        _ if names_root(kernel, source, process) => Ok(()),
        RootMembership::Elsewhere => {
            Err(format!("it works under another root than {}", source.root.path.display()))
        }
        RootMembership::Unseen(why) => Err(format!("under which root it works cannot be seen: {why}")),
    }
}

/// Its own arguments, or the variables of its children, name a file below the root: an agent may be given a session's
/// file from another root.
fn names_root(kernel: &dyn Kernel, source: &Source, process: &Process) -> bool {
    let names = |text: &str| is_below(Path::new(text), &source.root);
    if process.head.argv.iter().skip(1).any(|word| names(word)) {
        return true;
    }
    let Observed::Seen(heads) = kernel.heads() else { return false };
    let children = heads.iter().filter(|head| head.parent == process.pid());
    let mut looked = children.filter_map(|head| kernel.inspect(head, InspectRequest::default()));
    looked.any(|child| {
        child
            .environ
            .seen()
            .is_some_and(|environ| environ.iter().any(|(_, value)| value.to_str().is_some_and(&names)))
    })
}
