//! As much of a terminal as agents need: a grid of characters, and answers to the queries for which they wait.
//!
//! Pure: bytes in, bytes out. It has no colours, no scroll regions and no wide characters, and should get them only if a
//! test cannot read its screen without them.

/// A terminal's grid and cursor, fed with a program's output.
pub(super) struct Screen {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
    saved: (usize, usize),
    columns: usize,
    /// The first bytes of a character or an escape sequence that is not complete yet.
    pending: Vec<u8>,
}

/// One complete character or escape sequence at the beginning of the input.
enum Token<'a> {
    Character(char),
    Control(u8),
    /// Parameters (with a private prefix, if any) and the final byte.
    Csi(&'a str, u8),
    Osc(&'a str),
    Other(u8),
}

impl Screen {
    pub(super) fn new(rows: u16, columns: u16) -> Self {
        let (rows, columns) = (usize::from(rows), usize::from(columns));
        let cells = vec![vec![' '; columns]; rows];
        Self { cells, row: 0, column: 0, saved: (0, 0), columns, pending: Vec::new() }
    }

    /// Draws `bytes` and returns a terminal's answers to the queries in them.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.pending);
        let mut answers = String::new();
        let mut at = 0;
        while let Some((token, length)) = next(&input[at..]) {
            at += length;
            match token {
                Token::Character(character) => self.put(character),
                Token::Control(byte) => self.control(byte),
                Token::Csi(parameters, last) => answers += &self.csi(parameters, last),
                Token::Osc(text) => answers += colour_answer(text),
                Token::Other(byte) => self.escape(byte),
            }
        }
        self.pending = input[at..].to_vec();
        answers.into_bytes()
    }

    pub(super) fn text(&self) -> String {
        let line = |cells: &Vec<char>| cells.iter().collect::<String>().trim_end().to_owned();
        self.cells.iter().map(line).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    fn put(&mut self, character: char) {
        if self.column >= self.columns {
            self.column = 0;
            self.line_feed();
        }
        self.cells[self.row][self.column] = character;
        self.column += 1;
    }

    fn control(&mut self, byte: u8) {
        match byte {
            b'\r' => self.column = 0,
            b'\n' => self.line_feed(),
            0x08 => self.column = self.column.saturating_sub(1),
            b'\t' => self.column = ((self.column / 8 + 1) * 8).min(self.columns - 1),
            _ => {}
        }
    }

    fn escape(&mut self, byte: u8) {
        match byte {
            b'7' => self.saved = (self.row, self.column),
            b'8' => (self.row, self.column) = self.saved,
            b'M' if self.row == 0 => self.scroll_down(),
            b'M' => self.row -= 1,
            b'c' => self.clear(0..self.cells.len()),
            _ => {}
        }
    }

    fn line_feed(&mut self) {
        if self.row + 1 < self.cells.len() {
            self.row += 1;
        } else {
            self.cells.remove(0);
            self.cells.push(vec![' '; self.columns]);
        }
    }

    fn scroll_down(&mut self) {
        self.cells.pop();
        self.cells.insert(0, vec![' '; self.columns]);
    }

    fn clear(&mut self, rows: std::ops::Range<usize>) {
        self.cells[rows].iter_mut().for_each(|row| row.fill(' '));
    }

    /// Carries out a control sequence: it moves the cursor, erases, or returns an answer.
    fn csi(&mut self, parameters: &str, last: u8) -> String {
        let number = |index: usize| parameters.split(';').nth(index).and_then(|n| n.parse::<usize>().ok());
        let count = number(0).unwrap_or(1).max(1);
        let (bottom, right) = (self.cells.len() - 1, self.columns - 1);
        match (parameters.as_bytes().first(), last) {
            (Some(b'?'), b'h' | b'l') if parameters.ends_with("1049") => self.clear(0..bottom + 1),
            (Some(b'?'), b'u') => return "\x1b[?0u".to_owned(),
            (Some(b'?'), b'p') => return format!("\x1b[{};0$y", parameters.trim_end_matches('$')),
            (Some(b'>'), b'c') => return "\x1b[>0;0;0c".to_owned(),
            (Some(b'>'), b'q') => return "\x1bP>|testkit\x1b\\".to_owned(),
            (Some(b'?' | b'>' | b'<' | b'='), _) => {}
            (_, b'c') => return "\x1b[?62;22c".to_owned(),
            (_, b'n') if number(0) == Some(5) => return "\x1b[0n".to_owned(),
            (_, b'n') if number(0) == Some(6) => {
                return format!("\x1b[{};{}R", self.row + 1, self.column.min(right) + 1);
            }
            (_, b't') if number(0) == Some(18) => return format!("\x1b[8;{};{}t", bottom + 1, right + 1),
            (_, b'A') => self.row = self.row.saturating_sub(count),
            (_, b'B' | b'e') => self.row = (self.row + count).min(bottom),
            (_, b'C' | b'a') => self.column = (self.column + count).min(right),
            (_, b'D') => self.column = self.column.saturating_sub(count),
            (_, b'E') => (self.row, self.column) = ((self.row + count).min(bottom), 0),
            (_, b'F') => (self.row, self.column) = (self.row.saturating_sub(count), 0),
            (_, b'G' | b'`') => self.column = (count - 1).min(right),
            (_, b'd') => self.row = (count - 1).min(bottom),
            (_, b'H' | b'f') => {
                let column = number(1).unwrap_or(1).max(1);
                (self.row, self.column) = ((count - 1).min(bottom), (column - 1).min(right));
            }
            (_, b'J') => self.erase_screen(number(0).unwrap_or(0)),
            (_, b'K') => self.erase_line(number(0).unwrap_or(0)),
            (_, b'X') => {
                let start = self.column.min(right);
                self.cells[self.row][start..(start + count).min(right + 1)].fill(' ');
            }
            (_, b's') => self.saved = (self.row, self.column),
            (_, b'u') => (self.row, self.column) = self.saved,
            _ => {}
        }
        String::new()
    }

    fn erase_screen(&mut self, mode: usize) {
        match mode {
            0 => {
                self.erase_line(0);
                self.clear(self.row + 1..self.cells.len());
            }
            1 => {
                self.erase_line(1);
                self.clear(0..self.row);
            }
            _ => self.clear(0..self.cells.len()),
        }
    }

    fn erase_line(&mut self, mode: usize) {
        let column = self.column.min(self.columns - 1);
        let line = &mut self.cells[self.row];
        match mode {
            0 => line[column..].fill(' '),
            1 => line[..=column].fill(' '),
            _ => line.fill(' '),
        }
    }
}

/// Answers a colour query with black on white, so that the program stops waiting.
fn colour_answer(question: &str) -> &'static str {
    match question {
        "10;?" => "\x1b]10;rgb:0000/0000/0000\x1b\\",
        "11;?" => "\x1b]11;rgb:ffff/ffff/ffff\x1b\\",
        _ => "",
    }
}

/// The first complete token and its length; `None` when the input is empty or ends in the middle of one.
fn next(input: &[u8]) -> Option<(Token<'_>, usize)> {
    match input {
        [] | [0x1b] => None,
        [0x1b, b'[', rest @ ..] => {
            let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
            let parameters = std::str::from_utf8(&rest[..end]).unwrap_or_default();
            Some((Token::Csi(parameters, rest[end]), end + 3))
        }
        // Operating system commands, and three other kinds of strings, which are ignored.
        [0x1b, kind @ (b']' | b'P' | b'_' | b'^'), rest @ ..] => {
            let end = rest.iter().position(|byte| matches!(byte, 0x07 | 0x1b))?;
            let closing = if rest[end] == 0x07 { 1 } else { rest.get(end + 1).map(|_| 2)? };
            let text = std::str::from_utf8(&rest[..end]).unwrap_or_default();
            let text = if *kind == b']' { text } else { "" };
            Some((Token::Osc(text), 2 + end + closing))
        }
        [0x1b, b'(' | b')' | b'#', rest @ ..] => rest.first().map(|_| (Token::Control(0), 3)),
        [0x1b, byte, ..] => Some((Token::Other(*byte), 2)),
        [byte @ (0..0x20 | 0x7f), ..] => Some((Token::Control(*byte), 1)),
        [first, ..] => {
            let length = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            let bytes = input.get(..length)?;
            let character = std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next());
            character.map_or(Some((Token::Control(0), 1)), |known| Some((Token::Character(known), length)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(bytes: &[u8]) -> (String, String) {
        let mut screen = Screen::new(4, 20);
        let answers = screen.feed(bytes);
        (screen.text(), String::from_utf8(answers).unwrap())
    }

    #[test]
    fn text_is_where_the_cursor_puts_it() {
        assert_eq!(after(b"ab\r\n\x1b[1mcd\x1b[0m\x1b[2Cef").0, "ab\ncd  ef");
        assert_eq!(after(b"one\x1b[3;5Hfive\x1b[1;1HO").0, "One\n\n    five");
        assert_eq!(after(b"abc\x1b[2D\x1b[K").0, "a");
        assert_eq!(after(b"a\r\nb\r\nc\r\nd\r\ne").0, "b\nc\nd\ne");
        assert_eq!(after(b"old\x1b[2J\x1b[Hnew").0, "new");
    }

    #[test]
    fn questions_are_answered() {
        assert_eq!(after(b"ab\x1b[6n").1, "\x1b[1;3R");
        assert_eq!(after(b"\x1b[c\x1b[?u").1, "\x1b[?62;22c\x1b[?0u");
        assert_eq!(after(b"\x1b[?2026$p").1, "\x1b[?2026;0$y");
        assert!(after(b"\x1b]11;?\x07").1.contains("rgb:ffff"));
    }

    #[test]
    fn tokens_may_be_cut_anywhere() {
        let bytes = "π\x1b[2;3H\x1b]0;title\x07→\x1b[6n".as_bytes();
        for cut in 0..bytes.len() {
            let mut screen = Screen::new(4, 20);
            let mut answers = screen.feed(&bytes[..cut]);
            answers.extend(screen.feed(&bytes[cut..]));
            assert_eq!((screen.text().as_str(), &answers[..]), ("π\n  →", &b"\x1b[2;4R"[..]), "cut at {cut}");
        }
    }
}
