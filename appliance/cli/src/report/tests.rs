//! Tables, tabs and JSON lines, byte for byte.

use super::number::Unit;
use super::*;

const COLUMNS: &[Column] = &[
    column("read", Kind::ByteRate, 8, "Bytes read."),
    column("hit%", Kind::Number(1), 5, "Share of hits."),
    column("wait", Kind::Number(2), 5, "Waiting time."),
    column("client", Kind::Text, 8, "The client."),
];

fn options(form: Form) -> Options {
    Options { unit: Unit::Power(1), screen: 2, ..Options::plain(form) }
}

fn written(options: &Options) -> String {
    let mut report = Report::new(Vec::new(), COLUMNS, options).expect("columns");
    let rows: [(bool, [Value; 4]); 3] = [
        (true, [Value::from(3072u64), 99.96.into(), Value::Absent, "10.0.0.7".into()]),
        (false, [Value::from(0u64), (-1.421_085_471_520_2e-14).into(), 0.004.into(), "a\nb".into()]),
        (false, [Value::from(1u64 << 40), 100.0.into(), 0.005_1.into(), "c".into()]),
    ];
    for (n, (boot, row)) in (100..).zip(rows) {
        report.row(Stamp { at: n, boot }, &row).expect("written");
    }
    String::from_utf8(report.out).expect("text")
}

#[test]
fn tables_have_constant_units_no_residue_and_a_heading_on_each_screen() {
    let expected = "      time  read_KiB/s   hit%   wait  client
      boot         3.0  100.0      -  10.0.0.7
       101           0      0      0  a\\nb
      time  read_KiB/s   hit%   wait  client
       102  1073741824.0  100.0   0.01  c
";
    assert_eq!(written(&options(Form::Table)), expected);
    let narrow =
        Options { fields: Some(vec!["client".into(), "hit%".into()]), hide_idle: true, ..options(Form::Table) };
    let expected = "      time  client     hit%
      boot  10.0.0.7  100.0
       101  a\\nb          0
      time  client     hit%
       102  c         100.0
";
    assert_eq!(written(&narrow), expected, "the second row is not idle: a value was rounded to 0");
}

#[test]
fn scripts_get_tabs_and_programs_json() {
    let exact = Options { exact: true, ..options(Form::Scripted) };
    assert_eq!(
        written(&exact),
        "boot\t3072\t99.96\t-\t10.0.0.7\n101\t0\t0\t0.004\ta\\nb\n102\t1099511627776\t100\t0.005\tc\n"
    );
    let json = written(&Options { hide_idle: true, ..options(Form::Json) });
    let lines: Vec<Json> = json.lines().map(|l| serde_json::from_str(l).expect("an object")).collect();
    assert_eq!(
        lines,
        [
            json!({"time": 100, "sample": "boot", "read": 3072, "hit%": 99.96, "wait": null, "client": "10.0.0.7"}),
            json!({"time": 101, "sample": "interval", "read": 0, "hit%": 0, "wait": 0.004, "client": "a\nb"}),
            json!({"time": 102, "sample": "interval", "read": 1u64 << 40, "hit%": 100, "wait": 0.005, "client": "c"}),
        ]
    );
}

#[test]
fn idle_rows_are_hidden_only_in_tables() {
    let idle = |form| {
        let mut report =
            Report::new(Vec::new(), COLUMNS, &Options { hide_idle: true, ..options(form) }).expect("columns");
        report
            .row(Stamp { at: 1, boot: false }, &[0u64.into(), Value::Absent, 0.0.into(), "x".into()])
            .expect("written");
        report.out.len()
    };
    assert_eq!(idle(Form::Table), 0);
    assert!(idle(Form::Scripted) > 0 && idle(Form::Json) > 0);
}

#[test]
fn a_field_that_there_is_not_is_named() {
    let wrong = Options { fields: Some(vec!["read".into(), "nosuch".into()]), ..options(Form::Table) };
    let error = Report::new(Vec::new(), COLUMNS, &wrong).map(|_| ()).expect_err("refused").to_string();
    assert_eq!(error, "unknown column 'nosuch', expected one or more of read,hit%,wait,client");
}

#[test]
fn every_small_number_is_zero() {
    for (x, decimals, text) in [
        (0.49, 0, "0"),
        (0.51, 0, "1"),
        (-0.049, 1, "0"),
        (-0.06, 1, "-0.1"),
        (-0.0, 3, "0"),
        (f64::NAN, 1, "-"),
        (1e15, 0, "1000000000000000"),
    ] {
        assert_eq!(decimal(x, decimals), text, "{x}");
    }
    assert_eq!([exact(1.5), exact(1e-9), exact(100.0), exact(0.1 + 0.2)], ["1.5", "0", "100", "0.3"]);
}

#[test]
fn a_closed_pipe_is_a_successful_end() {
    let broken = || anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
    assert!(quiet(Err(broken())).is_ok() && quiet(Err(broken().context("while writing"))).is_ok());
    assert!(quiet(Err(anyhow::anyhow!("another"))).is_err());
}

#[test]
fn columns_are_described_for_people_and_programs() {
    assert!(glossary(COLUMNS).starts_with("read    Bytes read.\n"));
    let first: Json = serde_json::from_str(schema(COLUMNS).lines().next().expect("a line")).expect("JSON");
    assert_eq!(first, json!({"name": "read", "type": "number", "unit": "bytes/s", "help": "Bytes read."}));
}
