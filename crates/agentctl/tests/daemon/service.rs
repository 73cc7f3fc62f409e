//! The daemon as a service, with a service manager that only writes down what it was asked.

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
    let expected =
        "--user daemon-reload\n--user enable --now agentctl.service\n--user disable --now agentctl.service\n";
    assert_eq!(asked, expected);
    assert!(house.run(&["daemon", "uninstall"]).ok().stdout.contains("no service"));
}
