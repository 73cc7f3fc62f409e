//! A table that fits the screen: columns are dropped by rank, and flexible ones share the remaining width.

use super::style::{Paint, Tone};
use super::width::{cut_end, cut_path, measure};

const GAP: usize = 2;

/// Which end of a cell is kept when it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Start,
    /// For paths.
    End,
}

/// One column, and how it behaves when there is not enough room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    header: &'static str,
    /// The narrowest useful width of a column that may be cut; `None` for one that is shown in full or not at
    /// all.
    least: Option<usize>,
    /// The column with the highest rank is dropped first; 0 is never dropped.
    expendable: u8,
    keep: Keep,
    /// A cell wider than this, and than a quarter of the screen, is printed in full on its own line above its
    /// row.
    overhang: Option<usize>,
}

impl Column {
    pub(crate) fn whole(header: &'static str) -> Self {
        Self { header, least: None, expendable: 0, keep: Keep::Start, overhang: None }
    }

    pub(crate) fn flexible(header: &'static str, least: usize) -> Self {
        Self { least: Some(least), ..Self::whole(header) }
    }

    pub(crate) fn expendable(self, rank: u8) -> Self {
        Self { expendable: rank, ..self }
    }

    pub(crate) fn overhanging(self, most: usize) -> Self {
        Self { overhang: Some(most), ..self }
    }

    pub(crate) fn keep_end(self) -> Self {
        Self { keep: Keep::End, ..self }
    }
}

/// A cell: pieces of text with their meanings. The text must already be clean.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell(Vec<(String, Tone)>);

impl Cell {
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self::default().and(text, tone)
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Tone::Plain)
    }

    pub(crate) fn and(mut self, text: impl Into<String>, tone: Tone) -> Self {
        self.0.push((text.into(), tone));
        self
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| measure(text)).sum()
    }

    /// The cell in at most `width` columns.
    fn cut(&self, width: usize, keep: Keep) -> Self {
        if self.width() <= width {
            return self.clone();
        }
        if let (Keep::End, [(text, tone)]) = (keep, self.0.as_slice()) {
            return Self::new(cut_path(text, width), *tone);
        }
        let mut left = width;
        let mut cut = Self::default();
        for (text, tone) in &self.0 {
            let piece = cut_end(text, left);
            left -= measure(&piece);
            let whole = piece == *text;
            cut = cut.and(piece, *tone);
            if !whole {
                break;
            }
        }
        cut
    }

    fn paint(&self, paint: Paint) -> String {
        self.0.iter().map(|(text, tone)| paint.apply(*tone, text)).collect()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// Whether the columns were named, so that all of them are shown.
    chosen: bool,
    /// Whether a line may be wider than the screen.
    runs_on: bool,
}

impl Table {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new(), chosen: false, runs_on: false }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The same table with only these columns, by their headers and in this order. None of them is dropped,
    /// even if it is empty.
    pub(crate) fn choose(self, headers: &[&str]) -> Self {
        let place = |header: &&str| self.columns.iter().position(|column| column.header == *header);
        let places: Vec<usize> = headers.iter().filter_map(place).collect();
        let columns = places.iter().map(|place| self.columns[*place].expendable(0)).collect();
        let rows = self.rows.iter().map(|row| places.iter().map(|place| row[*place].clone()).collect());
        Self { columns, rows: rows.collect(), chosen: true, runs_on: true }
    }

    /// The same table with lines that never exceed the screen, for a screen that is redrawn.
    pub(crate) fn within_the_screen(self) -> Self {
        Self { runs_on: false, ..self }
    }

    /// The header and one line per row, or two where a cell overhangs. No line is wider than `width`, unless
    /// the chosen columns need more.
    pub(crate) fn lines(&self, width: usize, paint: Paint) -> Vec<String> {
        let layout = self.layout(width);
        let header = self.columns.iter().map(|column| Cell::new(column.header, Tone::Dim)).collect();
        let rows = std::iter::once(&header).chain(&self.rows);
        rows.flat_map(|row| self.row_lines(row, &layout, width, paint)).collect()
    }

    fn row_lines(&self, row: &[Cell], layout: &[(usize, usize)], width: usize, paint: Paint) -> Vec<String> {
        let hangs_over = |(index, room): &&(usize, usize)| {
            self.columns[*index].overhang.is_some() && row[*index].width() > *room
        };
        let Some((index, _)) = layout.iter().find(hangs_over) else {
            return vec![self.line(row, layout, paint)];
        };
        let mut rest = row.to_vec();
        let alone = std::mem::take(&mut rest[*index]).cut(width, self.columns[*index].keep);
        vec![alone.paint(paint), self.line(&rest, layout, paint)]
    }

    /// The columns that contain text; the others are not shown.
    fn filled(&self) -> Vec<usize> {
        let says = |index: &usize| {
            self.chosen || self.rows.is_empty() || self.rows.iter().any(|row| row[*index].width() > 0)
        };
        (0..self.columns.len()).filter(says).collect()
    }

    fn line(&self, row: &[Cell], layout: &[(usize, usize)], paint: Paint) -> String {
        let mut line = String::new();
        // Padding is only written before the next cell with text, so that no line ends in blanks.
        let mut pending = 0;
        for (index, width) in layout {
            let cell = row[*index].cut(*width, self.columns[*index].keep);
            // A wide character that did not fit leaves the cell narrower than its column.
            let used = cell.width();
            if used > 0 {
                line.extend(std::iter::repeat_n(' ', pending));
                pending = 0;
                line.push_str(&cell.paint(paint));
            }
            pending += width - used + GAP;
        }
        line
    }

    /// The columns that are shown, and their widths.
    fn layout(&self, width: usize) -> Vec<(usize, usize)> {
        let natural: Vec<usize> = (0..self.columns.len()).map(|index| self.natural(index, width)).collect();
        let least = |index: usize| match self.columns[index].least {
            Some(least) => natural[index].min(least.max(self.columns[index].header.len())),
            None => natural[index],
        };
        let mut shown = self.filled();
        while total(shown.iter().map(|index| least(*index))) > width {
            let Some(victim) = shown
                .iter()
                .copied()
                .filter(|index| self.columns[*index].expendable > 0)
                .max_by_key(|index| self.columns[*index].expendable)
            else {
                break;
            };
            shown.retain(|index| *index != victim);
        }
        let mut widths: Vec<(usize, usize)> = shown.iter().map(|index| (*index, least(*index))).collect();
        self.grow(&mut widths, &natural, width);
        // A user who named the columns wants to read them: a line that is too long is better than an
        // unreadable column.
        if !self.runs_on {
            shrink(&mut widths, width);
        }
        widths
    }

    fn natural(&self, index: usize, width: usize) -> usize {
        // A wide screen has room to spare.
        let most = self.columns[index].overhang.map_or(usize::MAX, |most| most.max(width / 4));
        let cells = self.rows.iter().map(|row| row[index].width()).filter(|width| *width <= most);
        let cells = cells.max().unwrap_or(0);
        cells.max(measure(self.columns[index].header))
    }

    /// Gives the remaining width to the flexible columns, one screen column at a time.
    fn grow(&self, widths: &mut [(usize, usize)], natural: &[usize], width: usize) {
        let mut spare = width.saturating_sub(total(widths.iter().map(|(_, width)| *width)));
        loop {
            let before = spare;
            for (index, current) in widths.iter_mut() {
                if spare > 0 && self.columns[*index].least.is_some() && *current < natural[*index] {
                    *current += 1;
                    spare -= 1;
                }
            }
            if spare == before {
                return;
            }
        }
    }
}

/// On a screen that is too narrow even for the permanent columns, the last ones are cut.
fn shrink(widths: &mut Vec<(usize, usize)>, width: usize) {
    let mut over = total(widths.iter().map(|(_, width)| *width)).saturating_sub(width);
    for (_, current) in widths.iter_mut().rev() {
        let cut = over.min(current.saturating_sub(1));
        *current -= cut;
        over -= cut;
    }
    while over > 0 && widths.len() > 1 {
        over = over.saturating_sub(1 + GAP);
        widths.pop();
    }
}

fn total(widths: impl Iterator<Item = usize>) -> usize {
    let (sum, count) = widths.fold((0, 0), |(sum, count), width| (sum + width, count + 1));
    sum + GAP * usize::saturating_sub(count, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(vec![
            Column::whole("ID"),
            Column::flexible("PROMPT", 10),
            Column::flexible("CWD", 8).keep_end().expendable(1),
            Column::whole("EXTRA").expendable(2),
        ]);
        table.row(vec![
            Cell::plain("12345678"),
            Cell::plain("日本語のとても長いプロンプト that goes on and on"),
            Cell::plain("/home/dev/some/where/deep/inside"),
            Cell::plain("seventeen letters"),
        ]);
        table.row(vec![Cell::plain("9"), Cell::plain("short"), Cell::default(), Cell::default()]);
        table
    }

    #[test]
    fn no_line_is_wider_than_asked_and_none_ends_in_blanks() {
        for width in 1..200 {
            for line in sample().lines(width, Paint::new(false)) {
                assert!(measure(&line) <= width, "{width}: {line:?}");
                assert_eq!(line, line.trim_end());
            }
        }
    }

    #[test]
    fn columns_give_way_by_rank() {
        let header = |width| sample().lines(width, Paint::new(false))[0].clone();
        assert!(header(120).contains("EXTRA"));
        assert!(!header(45).contains("EXTRA") && header(45).contains("CWD"));
        assert!(!header(25).contains("CWD") && header(25).contains("PROMPT"));
    }

    #[test]
    fn cells_line_up_also_behind_wide_characters() {
        let lines = sample().lines(60, Paint::new(false));
        let column = measure(&lines[0][..lines[0].find("CWD").unwrap()]);
        let cell = lines[1].find('…').map(|cut| &lines[1][cut..]).unwrap();
        assert!(cell.starts_with('…'));
        let path = lines[1].rfind('…').unwrap();
        assert_eq!(measure(&lines[1][..path]), column);
    }

    #[test]
    fn a_long_cell_hangs_over_instead_of_driving_columns_away() {
        let mut table = Table::new(vec![
            Column::whole("ID").overhanging(8),
            Column::whole("AGENT").expendable(1),
            Column::flexible("PROMPT", 10),
        ]);
        let long = "agent:main:dashboard:934eb747";
        for id in ["12345678", long] {
            table.row(vec![
                Cell::plain(id),
                Cell::plain("claude-code"),
                Cell::plain("do what is to be done"),
            ]);
        }
        let lines = table.lines(44, Paint::new(false));
        assert_eq!(lines.len(), 4, "{lines:#?}");
        assert!(lines[1].starts_with("12345678  claude-code  do what"), "{lines:#?}");
        assert_eq!((lines[2].as_str(), lines[3].find("claude-code")), (long, Some(10)), "{lines:#?}");
        assert!(table.lines(120, Paint::new(false)).iter().skip(2).all(|line| line.starts_with(long)));
    }

    #[test]
    fn chosen_columns_are_shown_in_their_order_filled_or_not() {
        let lines = sample().choose(&["EXTRA", "ID", "CWD"]).lines(1000, Paint::new(false));
        assert_eq!(lines[0], "EXTRA              ID        CWD");
        assert_eq!(lines[2].trim(), "9");
        // On a narrow screen none of them is cut to nothing.
        let lines = sample().choose(&["ID", "PROMPT", "CWD", "EXTRA"]).lines(30, Paint::new(false));
        assert!(
            ["ID", "PROMPT", "CWD", "EXTRA"].iter().all(|header| lines[0].contains(header)),
            "{lines:#?}"
        );
        assert!(lines[1].contains("seventeen letters"), "{lines:#?}");
    }

    #[test]
    fn a_column_nobody_fills_is_not_shown() {
        let mut table = Table::new(vec![Column::whole("A"), Column::whole("B")]);
        table.row(vec![Cell::plain("x"), Cell::default()]);
        assert_eq!(table.lines(80, Paint::new(false)), ["A", "x"]);
    }
}
