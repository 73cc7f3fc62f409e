//! Which agentctl this is: one folder of one user of one machine since one boot.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Surroundings;

impl Surroundings {
    /// The same for every road that leads here. A folder that does not exist yet is known by the nearest one that
    /// does, and by what is missing below it: containers share their kernel's boot, and often the user.
    pub(crate) fn instance(&self) -> String {
        let folder = self.own_folder().map(|(folder, _)| folder).unwrap_or_default();
        of_folder(&folder)
    }
}

fn of_folder(folder: &Path) -> String {
    let mut boot = agentctl_files::kernel::boot_id().unwrap_or_default();
    let uid = rustix::process::geteuid().as_raw();
    let there = folder.ancestors().find_map(|above| Some((above, std::fs::metadata(above).ok()?)));
    let (device, inode) = there.as_ref().map_or((0, 0), |(_, found)| (found.dev(), found.ino()));
    let missing = there.and_then(|(above, _)| folder.strip_prefix(above).ok());
    boot.push_str(&missing.unwrap_or(folder).to_string_lossy());
    agentctl_hosts::instance(&boot, uid, device, inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_are_two_instances_before_and_after_they_are_made() {
        let place = tempfile::tempdir().unwrap();
        let (one, other) = (place.path().join("a/.agentctl"), place.path().join("b/.agentctl"));
        assert_ne!(of_folder(&one), of_folder(&other));
        assert_eq!(of_folder(&one), of_folder(&one));
        std::fs::create_dir_all(&one).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        assert_ne!(of_folder(&one), of_folder(&other));
        let same = place.path().join("a/../a/.agentctl");
        assert_eq!(of_folder(&one), of_folder(&same));
    }
}
