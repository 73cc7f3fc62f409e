//! What is done to a session that was found, wherever it is.

use agentctl_adapters::Answer;
use agentctl_fleet::act::steer::{AnswerReceipt, InterruptReceipt, SendReceipt, SteerOptions};
use agentctl_fleet::act::stop::StopReport;
use agentctl_fleet::worktree::Changes;
use agentctl_fleet::{Caller, Fleet, Purpose, StopOptions};
use agentctl_model::{Entry, ErrorKind, Surveyed};

use super::find::Located;
use crate::failure::Failure;

impl Located {
    pub(crate) fn send(
        &self,
        fleet: &Fleet,
        words: &str,
        options: SteerOptions,
    ) -> Result<SendReceipt, Failure> {
        match &self.far {
            Some(far) => far.send(&self.found, words, options),
            None => Ok(fleet.send(&self.found, words, options)?),
        }
    }

    pub(crate) fn answer(
        &self,
        fleet: &Fleet,
        answer: Answer,
        options: SteerOptions,
    ) -> Result<AnswerReceipt, Failure> {
        match &self.far {
            Some(far) => far.answer(&self.found, &answer, options),
            None => Ok(fleet.answer(&self.found, answer, options)?),
        }
    }

    pub(crate) fn interrupt(
        &self,
        fleet: &Fleet,
        options: SteerOptions,
    ) -> Result<InterruptReceipt, Failure> {
        match &self.far {
            Some(far) => far.interrupt(&self.found, options),
            None => Ok(fleet.interrupt_turn(&self.found, options)?),
        }
    }

    pub(crate) fn stop(
        &self,
        fleet: &Fleet,
        caller: &Caller,
        options: StopOptions,
    ) -> Result<StopReport, Failure> {
        match &self.far {
            Some(far) => far.stop(&self.found, options),
            None => Ok(fleet.stop(&self.found, caller, options)?),
        }
    }

    /// The session as it is now; `None` when it could not be looked at.
    pub(crate) fn again(&self, fleet: &Fleet) -> Option<Surveyed> {
        match &self.far {
            Some(far) => far.again(&self.found, Purpose::Show).ok().map(|located| located.found),
            None => fleet.again(&self.found),
        }
    }

    /// What it has changed in its working tree.
    pub(crate) fn changes(&self, fleet: &Fleet) -> Result<Changes, Failure> {
        match &self.far {
            Some(far) => far.changes(&self.found),
            None => Ok(fleet.changes(&self.found)),
        }
    }

    /// The last entries of its conversation, oldest first.
    pub(crate) fn entries(&self, fleet: &Fleet, count: usize) -> Result<Vec<Entry>, Failure> {
        if let Some(far) = &self.far {
            return far.entries(&self.found, count);
        }
        match fleet.read(&self.found, count) {
            Ok(entries) => Ok(entries),
            // An agent at its empty prompt has not written a file yet.
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Failure::new(ErrorKind::Failed, error.to_string())),
        }
    }
}
