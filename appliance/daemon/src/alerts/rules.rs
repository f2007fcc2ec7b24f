//! Validation of alert rules before they are accepted.

use crate::config::AlertsConfig;
use crate::outgoing::{refused_host, wrong_url};
use analytics::alert::{Reduction, Threshold};
use analytics::catalogue;
use analytics::name::Name;
use api::{AlertAction, AlertReduction, AlertRule, AlertSide};

/// Limit for the receivers of an alert, and for the addresses of a mail.
const ACTIONS: usize = 8;
/// Maximum length of a title in characters.
const TITLE: usize = 200;
/// Maximum duration in seconds.
const SECONDS: u32 = 86_400;

/// Why an operation was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The rule is invalid.
    #[error("{0}")]
    Rule(String),
    #[error("no such alert")]
    Missing,
    /// It would change what a built-in alert reports.
    #[error("{0}")]
    BuiltIn(&'static str),
    /// It could not be stored or counted.
    #[error("{0}")]
    Failed(String),
}

/// A rule that was validated, with its name and threshold parsed.
pub struct Ready {
    pub name: Name,
    pub threshold: Threshold,
}

fn wrong<T>(text: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Rule(text.into()))
}

impl Ready {
    /// Validates a rule; the error says what is wrong.
    pub fn new(rule: &AlertRule, config: &AlertsConfig) -> Result<Self, Refused> {
        let letters = rule.title.chars().count();
        if letters == 0 || letters > TITLE || rule.title.chars().any(char::is_control) {
            return wrong(format!("title has {letters} characters, expected 1 to {TITLE}, and no line breaks"));
        }
        let name: Name = rule.statistic.parse().map_err(|e: analytics::name::BadName| Refused::Rule(e.to_string()))?;
        catalogue::find(&name).map_err(|e| Refused::Rule(e.to_string()))?;
        let is_map = name.breakdown.is_some_and(|f| f.scheme().is_some());
        let reduction = match (rule.reduction, rule.percentile) {
            (AlertReduction::Total, None) => Reduction::Total,
            (AlertReduction::Average, None) => Reduction::Average,
            (AlertReduction::Largest, None) => Reduction::Largest,
            (AlertReduction::Percentile, Some(p)) if p > 0.0 && p <= 100.0 => Reduction::Percentile(p),
            (AlertReduction::Percentile, p) => {
                let found = p.map_or_else(|| "missing".to_owned(), |p| p.to_string());
                return wrong(format!("percentile is {found}, expected more than 0 and at most 100"));
            }
            (_, Some(_)) => return wrong("percentile requires the reduction `percentile`"),
        };
        if reduction == Reduction::Largest && (is_map || name.breakdown.is_none()) {
            return wrong(format!(
                "the reduction is `largest`, expected a breakdown by names ('{}[pool]')",
                name.raw()
            ));
        }
        if !is_map && !matches!(reduction, Reduction::Total | Reduction::Largest) {
            return wrong(format!(
                "the reduction is `average` or `percentile`, expected a statistic that is a heat map ('{}[latency]')",
                name.raw()
            ));
        }
        if !rule.limit.is_finite() {
            return wrong("limit is not a number");
        }
        for (place, seconds) in [("for_seconds", rule.for_seconds), ("clear_seconds", rule.clear_seconds)] {
            if seconds == 0 || seconds > SECONDS {
                return wrong(format!("{place} is {seconds}, expected 1 to {SECONDS}"));
            }
        }
        if rule.actions.len() > ACTIONS {
            return wrong(format!("there are {} actions, expected at most {ACTIONS}", rule.actions.len()));
        }
        rule.actions.iter().try_for_each(|action| check(action, config))?;
        let threshold = Threshold {
            reduction,
            above: rule.side == AlertSide::Above,
            limit: rule.limit,
            for_seconds: rule.for_seconds,
            clear_seconds: rule.clear_seconds,
        };
        Ok(Self { name, threshold })
    }

    /// Unit of the values and the limit.
    pub fn unit(&self) -> String {
        let Ok(statistic) = catalogue::find(&self.name) else { return String::new() };
        let scheme = self.name.breakdown.and_then(|field| field.scheme());
        match (self.threshold.reduction, scheme) {
            (Reduction::Average | Reduction::Percentile(_), Some(scheme)) => scheme.unit().to_owned(),
            _ if statistic.shown == catalogue::Shown::Rate => format!("{}/s", statistic.unit),
            _ => statistic.unit.to_owned(),
        }
    }

    /// What is compared, in words.
    pub fn reduction_words(&self) -> String {
        match self.threshold.reduction {
            Reduction::Total => "the total".to_owned(),
            Reduction::Average => "the average".to_owned(),
            Reduction::Largest => "the largest value".to_owned(),
            Reduction::Percentile(p) => format!("percentile {p}"),
        }
    }
}

fn check(action: &AlertAction, config: &AlertsConfig) -> Result<(), Refused> {
    match action {
        AlertAction::Webhook { url } => {
            wrong_url(url).or_else(|| refused_host(url, &config.webhook_hosts)).map_or(Ok(()), wrong)
        }
        AlertAction::Mail { to } => {
            if config.mail_command.is_empty() {
                return wrong("mail cannot be sent: alerts.mail_command is not set in the configuration");
            }
            if to.is_empty() || to.len() > ACTIONS {
                return wrong(format!("a mail has {} receivers, expected 1 to {ACTIONS}", to.len()));
            }
            let is_address = |a: &&String| {
                let plain = |c: char| c.is_ascii_alphanumeric() || ".!#$%&'*+/=?^_`{|}~-@".contains(c);
                a.len() <= 254
                    && !a.starts_with('-')
                    && a.chars().all(plain)
                    && a.split_once('@')
                        .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'))
            };
            match to.iter().find(|a| !is_address(a)) {
                Some(bad) => wrong(format!("'{}' is not a mail address", bad.escape_debug())),
                None => Ok(()),
            }
        }
        AlertAction::Syslog => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn rule() -> AlertRule {
        AlertRule {
            title: "slow reads".to_owned(),
            statistic: "nfs3.ops[op=read][latency]".to_owned(),
            reduction: AlertReduction::Percentile,
            percentile: Some(99.0),
            side: AlertSide::Above,
            limit: 1e7,
            for_seconds: 5,
            clear_seconds: 5,
            suspended: false,
            silent_until: None,
            actions: vec![AlertAction::Syslog],
        }
    }

    #[test]
    fn a_rule_is_looked_at_before_it_is_taken() {
        let config = AlertsConfig { mail_command: vec!["mail".to_owned()], ..Config::default().alerts };
        assert!(Ready::new(&rule(), &config).is_ok());
        let mail = |to: &str| vec![AlertAction::Mail { to: vec![to.to_owned()] }];
        assert!(Ready::new(&AlertRule { actions: mail("ann@example.org"), ..rule() }, &config).is_ok());
        let bad = [
            AlertRule { title: String::new(), ..rule() },
            AlertRule { title: "a\nBcc: b".to_owned(), ..rule() },
            AlertRule { statistic: "nfs3.ops[colour]".to_owned(), ..rule() },
            AlertRule { statistic: "nfs3.ops[client]".to_owned(), ..rule() },
            AlertRule { percentile: Some(0.0), ..rule() },
            AlertRule { percentile: Some(f64::NAN), ..rule() },
            AlertRule { percentile: None, ..rule() },
            AlertRule { reduction: AlertReduction::Average, ..rule() },
            AlertRule { reduction: AlertReduction::Largest, percentile: None, ..rule() },
            AlertRule { limit: f64::INFINITY, ..rule() },
            AlertRule { for_seconds: 0, ..rule() },
            AlertRule { clear_seconds: 90_000, ..rule() },
            AlertRule { actions: vec![AlertAction::Syslog; 9], ..rule() },
            AlertRule { actions: vec![AlertAction::Webhook { url: "file:///x".to_owned() }], ..rule() },
            AlertRule { actions: mail("-oQ/tmp@example.org"), ..rule() },
            AlertRule { actions: mail("a@b\nBcc: c@d"), ..rule() },
            AlertRule { actions: mail("nobody"), ..rule() },
        ];
        for rule in bad {
            assert!(matches!(Ready::new(&rule, &config), Err(Refused::Rule(_))), "{rule:?}");
        }
        let largest = AlertRule { reduction: AlertReduction::Largest, percentile: None, ..rule() };
        let unit = |rule: &AlertRule| Ready::new(rule, &config).map(|ready| ready.unit());
        let pools = AlertRule { statistic: "cap.percentfull[pool]".to_owned(), ..largest.clone() };
        let clients = AlertRule { statistic: "nfs3.ops[client]".to_owned(), ..largest };
        assert_eq!((unit(&pools), unit(&clients)), (Ok("percent".to_owned()), Ok("ops/s".to_owned())));
        assert_eq!(unit(&rule()), Ok("ns".to_owned()));
        let without = Config::default().alerts;
        assert!(Ready::new(&AlertRule { actions: mail("ann@example.org"), ..rule() }, &without).is_err());
    }
}
