//! The daemon as a service, with a service manager that only records what it was asked.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::house::House;

#[test]
#[cfg(target_os = "linux")]
fn it_is_installed_and_taken_away() {
    let mut house = House::new();
    house.home.set_env("CODEX_HOME", "/srv/codex");
    let asked = house.home.path().join("asked");
    let manager = house.home.path().join("systemctl");
    fs::write(&manager, format!("#!/bin/sh\necho \"$@\" >> {}\n", asked.display())).unwrap();
    fs::set_permissions(&manager, fs::Permissions::from_mode(0o755)).unwrap();
    house.home.put_on_path("systemctl", &manager);
    let printed = house.run(&["daemon", "install", "--print"]).ok().stdout;
    let unit = house.home.path().join(".config/systemd/user/agentctl.service");
    assert!(!unit.exists());
    let _ = house.run(&["daemon", "install"]).ok();
    let text = fs::read_to_string(&unit).unwrap();
    assert_eq!(text, printed);
    for line in ["KillMode=process", "Type=notify", "Environment=\"CODEX_HOME=/srv/codex\""] {
        assert!(text.lines().any(|known| known == line), "{line}\n{text}");
    }
    let _ = house.run(&["daemon", "uninstall"]).ok();
    assert!(!unit.exists());
    let asked = fs::read_to_string(asked).unwrap();
    let expected = "--user show-environment\n--user daemon-reload\n--user enable --now agentctl.service\n\
        --user disable --now agentctl.service\n";
    assert_eq!(asked, expected);
    assert!(house.run(&["daemon", "uninstall"]).ok().stdout.contains("no service"));
}

/// A service manager that runs this script.
#[cfg(target_os = "linux")]
fn manager(house: &House, script: &str) {
    let manager = house.home.path().join("manager.sh");
    fs::write(&manager, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&manager, fs::Permissions::from_mode(0o755)).unwrap();
    house.home.put_on_path("systemctl", &manager);
}

#[test]
#[cfg(target_os = "linux")]
fn without_a_manager_nothing_is_half_done_and_everything_can_be_taken_away() {
    let house = House::new();
    let folder = house.home.path().join(".config/systemd/user");
    let unit = folder.join("agentctl.service");
    let no_bus = "echo 'Failed to connect to bus: No medium found' >&2; exit 1";
    manager(&house, no_bus);
    let refused = house.run(&["daemon", "install"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("No medium found") && refused.stderr.contains("nothing was written"));
    assert!(!house.home.path().join(".config").exists(), "not even a folder");
    // One that fails in the middle: the previous file is restored.
    manager(&house, "case \"$2\" in enable) echo 'no such unit' >&2; exit 1;; esac");
    let refused = house.run(&["daemon", "install"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("no such unit"), "{refused:?}");
    assert!(!unit.exists());
    fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
    assert_eq!(house.run(&["daemon", "install"]).code, Some(1));
    assert!(fs::read_to_string(&unit).unwrap().contains("/bin/true"));
    // It is removed all the same, with what enabling has created.
    let wanted = folder.join("default.target.wants");
    fs::create_dir_all(&wanted).unwrap();
    std::os::unix::fs::symlink(&unit, wanted.join("agentctl.service")).unwrap();
    manager(&house, no_bus);
    let removed = house.run(&["daemon", "uninstall"]).ok();
    assert!(removed.stderr.contains("No medium found"), "{removed:?}");
    assert!(!unit.exists() && fs::read_dir(&wanted).unwrap().count() == 0);
    assert!(house.run(&["daemon", "uninstall"]).ok().stdout.contains("no service"));
}

#[test]
#[cfg(target_os = "linux")]
fn the_unit_names_the_program_as_it_was_called() {
    let house = House::new();
    let link = house.home.path().join("agentctl-link");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_agentctl"), &link).unwrap();
    house.home.put_on_path("agentctl-on-path", &link);
    let printed = |program: &str, folder: &std::path::Path| {
        let mut command = house.home.command("sh");
        command.current_dir(folder).args(["-c", "exec \"$0\" daemon install --print", program]);
        let unit = house.home.run(command).ok().stdout;
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap().to_owned()
    };
    let quoted = |path: &std::path::Path| format!("\"{}\" daemon run", path.display());
    assert_eq!(printed(link.to_str().unwrap(), &house.home.path()), quoted(&link));
    let work = house.home.work_dir("a");
    assert_eq!(printed("./agentctl-link", &house.home.path()), quoted(&link));
    std::os::unix::fs::symlink(&link, work.join("beside")).unwrap();
    let real = work.canonicalize().unwrap();
    assert_eq!(printed("../a/beside", &work), quoted(&real.join("beside")));
    let on_path = printed("agentctl-on-path", &house.home.path());
    assert!(on_path.contains("/agentctl-on-path\" daemon run"), "{on_path}");
}
