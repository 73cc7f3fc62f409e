//! How meanings look: sixteen colours at most, readable on a light and on a dark background, and never colour alone.

use ratatui::style::{Color, Modifier, Style};

use crate::render::style::Tone;

/// Whether colours may be used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Theme {
    pub(crate) colours: bool,
}

impl Theme {
    #[expect(clippy::unused_self, reason = "the same in every theme")]
    pub(super) fn plain(self) -> Style {
        Style::new()
    }

    pub(super) fn of(self, tone: Tone) -> Style {
        let colour = |colour| if self.colours { Style::new().fg(colour) } else { Style::new() };
        match tone {
            Tone::Plain => Style::new(),
            Tone::Dim => Style::new().add_modifier(Modifier::DIM),
            Tone::Good => colour(Color::Green),
            // Yellow letters cannot be read on a light background; black ones on yellow can be read everywhere.
            Tone::Attention if self.colours => Style::new().fg(Color::Black).bg(Color::Yellow),
            Tone::Strong | Tone::Attention => Style::new().add_modifier(Modifier::BOLD),
            Tone::Bad => colour(Color::Red).add_modifier(Modifier::BOLD),
        }
    }
}
