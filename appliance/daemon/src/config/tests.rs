use super::{Config, Size, default_file, keys};
use api::SettingSource;
use std::collections::BTreeMap;

fn errors(text: &str) -> Vec<String> {
    Config::parse(text, "weir.toml").expect_err("it is wrong").iter().map(ToString::to_string).collect()
}

#[test]
fn the_default_file_is_accepted_and_changes_nothing() {
    let text = default_file();
    assert_eq!(Config::parse(&text, "default"), Ok(Config::default()));
    // Also with the comment signs removed, ignoring sources and the state directory.
    let live: String = text
        .lines()
        .map(|l| l.strip_prefix('#').filter(|l| !l.starts_with(' ')).unwrap_or(l).to_owned() + "\n")
        .collect();
    let mut config = Config::parse(&live, "default").unwrap_or_else(|e| panic!("{e:?}\n{live}"));
    assert_eq!(config.sources.len(), keys().len());
    (config.sources, config.state) = (BTreeMap::new(), None);
    assert_eq!(config, Config::default());
}

#[test]
fn errors_name_the_line_the_value_and_what_is_expected() {
    assert_eq!(
        errors("arc_max = 'lots'\n[api]\nlisten = [\"127.0.0.1\"]\nplain_http = 1\n[log]\nformat = \"xml\"\n"),
        [
            "weir.toml, line 1: arc_max is 'lots', expected bytes, or a number with K, M, G or T",
            "weir.toml, line 3: api.listen is '127.0.0.1', expected addresses with ports, such as [\"127.0.0.1:8215\", \"[::1]:8215\"]",
            "weir.toml, line 4: api.plain_http is 1, expected true or false",
            "weir.toml, line 6: log.format is 'xml', expected \"text\" or \"json\"",
        ]
    );
}

#[test]
fn unknown_keys_are_errors_that_name_those_that_there_are() {
    let all = errors("[log]\n\nlevle = 'info'\n[nsf]\nlisten = []\n");
    assert_eq!(all[0], "weir.toml, line 3: unknown key log.levle, expected one of log.level, log.format");
    assert!(
        all[1].starts_with("weir.toml, line 4: unknown key nsf, expected one of state, arc_max, mount, io, "),
        "{}",
        all[1]
    );
    assert_eq!(all.len(), 2);
}

#[test]
fn invalid_toml_is_reported_with_its_line() {
    let all = errors("state = \"/x\"\n[api\n");
    assert!(all[0].starts_with("weir.toml, line 2: "), "{}", all[0]);
}

#[test]
fn plain_http_is_only_allowed_on_loopback() {
    let loopback = "[api]\nplain_http = true\nlisten = ['127.0.0.1:80', '[::1]:80']";
    assert!(Config::parse(loopback, "x").is_ok());
    let all = errors("[api]\nplain_http = true\nlisten = ['127.0.0.1:80', '192.0.2.1:80']");
    assert!(all[0].contains("line 2") && all[0].contains("192.0.2.1:80"), "{}", all[0]);
}

#[test]
fn a_certificate_needs_its_key() {
    assert!(errors("[api]\ncertificate = '/c.pem'")[0].ends_with("expected api.key too"));
    assert!(errors("[api]\nkey = '/k.pem'")[0].ends_with("expected api.certificate too"));
}

#[test]
fn options_override_the_file() {
    let mut config = Config::parse("arc_max = '64M'\nlog.level = 'warn'", "x").expect("right");
    config.set_option("arc_max", "1G").expect("a size");
    config.set_option("api.listen", "127.0.0.1:0").expect("an address");
    config.set_option("api.plain_http", "true").expect("yes");
    config.set_option("io", "direct").expect("a word");
    assert_eq!(config.io, host::device::Io::Direct);
    assert_eq!((config.arc_max, config.api.plain_http, config.api.listen.len()), (Size(1 << 30), true, 1));
    let message = config.set_option("api.listen", "here").expect_err("no address").to_string();
    assert!(message.starts_with("command line: api.listen is 'here', expected addresses"), "{message}");
    let sources: Vec<_> = config.settings(&config).into_iter().map(|s| (s.name, s.value, s.source)).collect();
    assert!(sources.contains(&("arc_max".into(), "\"1G\"".into(), SettingSource::Option)));
    assert!(sources.contains(&("log.level".into(), "\"warn\"".into(), SettingSource::File)));
    assert!(sources.contains(&("log.format".into(), "\"text\"".into(), SettingSource::Default)));
}

#[test]
fn unknown_nfs_versions_and_excessive_leases_are_refused() {
    let all = errors("[nfs]\nversions = ['3', '5']\nlease_seconds = 1");
    assert_eq!(all[0], "weir.toml, line 2: nfs.versions has \"5\", expected 3, 4.0, 4.1, 4.2");
    assert_eq!(all[1], "weir.toml, line 3: nfs.lease_seconds is 1, expected 10 to 3600");
}

#[test]
fn commands_and_addresses_of_alerts_must_be_complete() {
    let all = errors("[alerts]\nmail_command = ['sendmail', '-t']\nsyslog = 'loghost'");
    assert!(all[0].starts_with("weir.toml, line 2: alerts.mail_command is 'sendmail -t', expected"), "{}", all[0]);
    assert!(all[1].starts_with("weir.toml, line 3: alerts.syslog is 'loghost', expected"), "{}", all[1]);
    assert!(Config::parse("[alerts]\nmail_command = '/bin/mail'\nsyslog = '[::1]:514'", "x").is_ok());
}

#[test]
fn where_figures_are_pushed_is_an_address() {
    let all = errors("[otlp]\nendpoint = 'collector:4318'\ninterval_seconds = 0\nheaders = ['secret']");
    assert!(all[0].starts_with("weir.toml, line 2: otlp.endpoint: 'collector:4318' is not a valid URL"), "{}", all[0]);
    assert_eq!(all[1], "weir.toml, line 3: otlp.interval_seconds is 0, expected 1 to 3600");
    assert!(all[2].starts_with("weir.toml, line 4: otlp.headers contains an invalid header"), "{}", all[2]);
    assert!(!all[2].contains("secret"));
    assert!(Config::parse("[otlp]\nendpoint = 'https://c.example/x'\nheaders = ['A: b']", "x").is_ok());
}
