//! The settings that a command takes behind its name.

use super::{
    AcceptArgs, BackupArgs, Command, ConfigCommand, ExportArgs, HealthArgs, ImportArgs, MoveArgs, Settings,
    StoreArgs, StoreCommand, VerifyArgs,
};

impl Command {
    /// The settings given after the command.
    pub(super) fn settings(&self) -> Settings {
        match self {
            Self::Serve(settings)
            | Self::Config(ConfigCommand::Show(settings) | ConfigCommand::Check(settings)) => {
                settings.clone()
            }
            Self::Health(HealthArgs { file, listen, .. }) => {
                Settings { file: file.clone(), listen: listen.clone(), ..Settings::default() }
            }
            Self::Verify(VerifyArgs { file, directory, engine, .. })
            | Self::Store(StoreCommand::Accept(AcceptArgs { file, directory, engine }))
            | Self::Export(ExportArgs { file, directory, engine, .. })
            | Self::Import(ImportArgs { file, directory, engine, .. })
            | Self::Move(MoveArgs { file, directory, engine, .. }) => {
                Settings::for_store(file, directory, engine)
            }
            Self::Backup(BackupArgs { file, directory, .. })
            | Self::Restore(BackupArgs { file, directory, .. })
            | Self::Store(StoreCommand::AcceptClock(StoreArgs { file, directory })) => {
                Settings { file: file.clone(), directory: directory.clone(), ..Settings::default() }
            }
            Self::Bench(arguments) => arguments.settings(),
            Self::Config(ConfigCommand::Default)
            | Self::Token(_)
            | Self::Add(_)
            | Self::Pop(_)
            | Self::Finish(_)
            | Self::Release(_)
            | Self::Revoke(_)
            | Self::Touch(_)
            | Self::Bury(_)
            | Self::Get(_)
            | Self::Reschedule(_)
            | Self::Cancel(_)
            | Self::Jobs(_)
            | Self::Bulk(_)
            | Self::Callbacks(_)
            | Self::Workers(_)
            | Self::Audit(_)
            | Self::Stats(_)
            | Self::Whoami(_)
            | Self::Dead(_)
            | Self::Topics(_)
            | Self::Topic(_)
            | Self::Schedule(_)
            | Self::Timeline(_)
            | Self::Top(_)
            | Self::Profile(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Work(_) => Settings::default(),
        }
    }
}
