//! Files of variables, parsed as OpenClaw's own command line does at its start. Pure.

/// Every `NAME=value` of the text, in order. A value is quoted or ends at a comment; lines that are not assignments
/// are skipped. (OpenClaw uses the `dotenv` package.)
pub(crate) fn parse(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = behind;
        let assignment = line.trim_start();
        let assignment = assignment.strip_prefix("export ").unwrap_or(assignment);
        let Some((name, value)) = assignment.split_once('=') else { continue };
        let name = name.trim();
        let is_name = |text: &str| {
            !text.starts_with(|first: char| first.is_ascii_digit())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if name.is_empty() || !is_name(name) {
            continue;
        }
        let value = value.trim();
        let quoted = value.chars().next().filter(|first| matches!(first, '"' | '\'' | '`'));
        let value =
            match quoted.and_then(|quote| value[1..].split_once(quote).map(|(inside, _)| (quote, inside))) {
                Some(('"', inside)) => inside.replace("\\n", "\n").replace("\\r", "\r"),
                Some((_, inside)) => inside.to_owned(),
                None => value.split('#').next().unwrap_or_default().trim_end().to_owned(),
            };
        pairs.push((name.to_owned(), value));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_read_and_everything_else_is_passed_over() {
        let text = "# mine\nA=1\n export B = 'two # 2' # said\nC=\"x\\ny\"\nD=plain # why\nno line\n1E=x\nF-G=y\nH='open\nI=\r\n";
        let read = parse(text);
        let pairs: Vec<(&str, &str)> =
            read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            pairs,
            [("A", "1"), ("B", "two # 2"), ("C", "x\ny"), ("D", "plain"), ("H", "'open"), ("I", "")]
        );
    }
}
