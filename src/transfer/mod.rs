//! Moving jobs between stores of any engine: exports and imports. Works on the trait of the store alone, and knows neither
//! HTTP nor the queue's rules.

mod copy;
mod file;
mod job_line;
mod line;
mod topic_line;
mod values;

pub use copy::{Exported, Imported, export, import};
pub use file::{CheckedExport, ExportFile, TransferError, check, remove_incomplete};
