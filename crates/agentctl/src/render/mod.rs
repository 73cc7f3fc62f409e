//! Turns data into what a person or a script reads. Nothing here queries anything.

pub(crate) mod entries;
pub(crate) mod json;
pub(crate) mod notice;
pub(crate) mod patch;
pub(crate) mod path;
pub(crate) mod request;
pub(crate) mod sessions;
pub(crate) mod shell;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod template;
pub(crate) mod time;
pub(crate) mod timeline;
pub(crate) mod width;
