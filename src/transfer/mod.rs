//! Moving jobs between stores of any engine: exports, imports, and the passes and steps of a move. Works on the traits of
//! the store alone, and knows neither HTTP nor the queue's rules.

mod compare;
mod copy;
mod file;
mod job_line;
mod line;
mod pass;
mod relocate;
mod topic_line;
mod values;

pub use copy::{Exported, Imported, export, import};
pub use file::{CheckedExport, ExportFile, TransferError, check, remove_incomplete};
pub use pass::PassReport;
pub use relocate::{NamedStore, Relocation, abandon};
