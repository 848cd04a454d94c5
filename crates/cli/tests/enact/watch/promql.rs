//! As much of the language of Prometheus as the queries of the dashboard and the alarms have: which series they ask for, and which
//! labels they leave.

/// Functions and operators that the queries may use.
const FUNCTIONS: [&str; 9] =
    ["changes", "deriv", "histogram_quantile", "increase", "max", "predict_linear", "rate", "sum", "topk"];
const OPERATORS: [&str; 3] = ["and", "or", "unless"];
/// Labels that Prometheus adds to what it scrapes.
const TARGET: [&str; 2] = ["instance", "job"];

/// A line of `/metrics`.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) name: String,
    labels: Vec<(String, String)>,
}

/// What a query asks for.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) selectors: Vec<Selector>,
    /// Whether it leaves only the labels that it names.
    pub(super) is_aggregated: bool,
    /// Those labels.
    pub(super) kept: Vec<String>,
}

/// The series that a query takes at one place.
#[derive(Debug)]
pub(super) struct Selector {
    pub(super) metric: String,
    pub(super) labels: Vec<Matcher>,
}

/// A label and the value that it must have, or must not have.
#[derive(Debug)]
pub(super) struct Matcher {
    pub(super) label: String,
    operator: String,
    value: String,
}

impl Sample {
    pub(super) fn read(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').expect("a series and its value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels =
            labels.strip_suffix('}').expect("the end of the labels").split(',').filter(|label| !label.is_empty());
        let label = |label: &str| {
            let (name, value) = label.split_once('=').expect("a label and its value");
            (name.to_owned(), value.trim_matches('"').to_owned())
        };
        Self { name: name.to_owned(), labels: labels.map(label).collect() }
    }

    fn value(&self, label: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| name == label).map(|(_, value)| value.as_str())
    }
}

impl Selector {
    /// Whether it takes the series of `sample`.
    pub(super) fn takes(&self, sample: &Sample) -> bool {
        let fits = |Matcher { label, operator, value }: &Matcher| {
            let found = sample.value(label).unwrap_or_default();
            TARGET.contains(&label.as_str()) || (found == value) == (operator == "=")
        };
        self.metric == sample.name && self.labels.iter().all(fits)
    }

    /// Whether its metric has the label, by itself or from Prometheus.
    pub(super) fn has(&self, label: &str, samples: &[Sample]) -> bool {
        let mut own = samples.iter().filter(|sample| sample.name == self.metric);
        TARGET.contains(&label) || own.any(|sample| sample.value(label).is_some())
    }
}

impl Query {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let tokens = tokens(text)?;
        let count = |bracket: &str| tokens.iter().filter(|token| *token == bracket).count();
        if [("(", ")"), ("{", "}"), ("[", "]")].iter().any(|(open, close)| count(open) != count(close)) {
            return Err("brackets without their other half".to_owned());
        }
        let mut query = Self::default();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let is_called = tokens.get(at + 1).is_some_and(|next| next == "(");
            at += 1;
            if token == "by" {
                let list = until(&tokens, &mut at, ")")?;
                query.is_aggregated = true;
                query.kept.extend(list.iter().filter(|token| *token != "(" && *token != ",").cloned());
            } else if token == "[" {
                until(&tokens, &mut at, "]")?;
            } else if is_name(token) && !OPERATORS.contains(&token.as_str()) && !FUNCTIONS.contains(&token.as_str()) {
                if is_called {
                    return Err(format!("there is no function {token}"));
                }
                query.selectors.push(Selector { metric: token.clone(), labels: matchers(&tokens, &mut at)? });
            }
        }
        Ok(query)
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// The tokens from `at` to `end`, behind which it goes on.
fn until<'a>(tokens: &'a [String], at: &mut usize, end: &str) -> Result<&'a [String], String> {
    let from = *at;
    let len = tokens[from..].iter().position(|token| token == end).ok_or_else(|| format!("no {end}"))?;
    *at = from + len + 1;
    Ok(&tokens[from..from + len])
}

/// The matchers that begin at `at`, if any do.
fn matchers(tokens: &[String], at: &mut usize) -> Result<Vec<Matcher>, String> {
    if tokens.get(*at).is_none_or(|token| token != "{") {
        return Ok(Vec::new());
    }
    *at += 1;
    let matcher = |tokens: &[String]| match tokens {
        [label, operator, value] if ["=", "!=", "=~"].contains(&operator.as_str()) => {
            // Patterns are for the instances that a reader of the dashboard chooses.
            if operator == "=~" && !TARGET.contains(&label.as_str()) {
                return Err(format!("a pattern for {label}"));
            }
            let value = value.trim_matches('"').to_owned();
            Ok(Matcher { label: label.clone(), operator: operator.clone(), value })
        }
        other => Err(format!("no matcher: {other:?}")),
    };
    until(tokens, at, "}")?.split(|token| token == ",").map(matcher).collect()
}

/// Names, numbers, texts with their quotes, and operators.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '"' => rest[1..].find('"').ok_or("a text without an end")? + 2,
            _ if first.is_ascii_alphanumeric() || "_$".contains(first) => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || "_$.:".contains(c);
                rest.find(|c| !is_part(c)).unwrap_or(rest.len())
            }
            '!' | '=' | '<' | '>' if rest[1..].starts_with(['=', '~']) => 2,
            _ if "(){}[],=<>+-*/".contains(first) => 1,
            _ => return Err(format!("{first:?}")),
        };
        tokens.push(rest[..len].to_owned());
        rest = rest[len..].trim_start();
    }
    Ok(tokens)
}
