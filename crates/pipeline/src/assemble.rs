//! From the config to a journal, a source and sinks.

use crate::capture::Resumed;
use crate::config::{
    CompressionConfig, Config, FsyncConfig, OnFullConfig, SinkConfig, SourceConfig, StartConfig,
};
use crate::delivery::DeliveryConfig;
use crate::pattern::Patterns;
use change::{Sink, SinkError, Source, SourceError};
use journal::{Compression, FileKeys, OnFull};
use sink_clickhouse::{ClickHouseConfig, ClickHouseSink};
use sink_file::{FileSink, Fsync, StdoutSink};
use sink_kafka::{Identity, KafkaSink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where a config's relative paths count from, and what the pipeline is called.
#[derive(Debug, Clone)]
pub struct Place {
    /// The config file's name without its extension.
    pub name: String,
    /// The config file's folder.
    pub folder: PathBuf,
}

impl Place {
    /// Of a config file.
    pub fn of(config_file: &Path) -> Self {
        let name = config_file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let folder = config_file.parent().unwrap_or(Path::new("")).to_owned();
        Self { name, folder }
    }

    /// A path of the config.
    pub fn path(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    /// Makes the paths of certificates, keys and tokens full, so that everyone who connects finds them.
    pub fn resolve_security(&self, config: &mut Config) {
        match &mut config.source {
            SourceConfig::Mysql(source) | SourceConfig::Mariadb(source) => {
                let tls = &mut source.tls;
                self.resolve([&mut tls.ca, &mut tls.cert, &mut tls.key]);
            }
            SourceConfig::Topic(source) => {
                if let Some(kafka) = &mut source.kafka {
                    self.resolve_kafka(&mut kafka.security);
                }
                #[cfg(feature = "rocketmq")]
                if let Some(rocketmq) = &mut source.rocketmq {
                    self.resolve_rocketmq(&mut rocketmq.security);
                }
            }
            SourceConfig::Recorded(_) => {}
        }
        for sink in &mut config.sinks {
            if let Some(kafka) = &mut sink.kafka {
                self.resolve_kafka(&mut kafka.security);
            }
            if let Some(clickhouse) = &mut sink.clickhouse {
                self.resolve([&mut clickhouse.ca]);
            }
            #[cfg(feature = "rocketmq")]
            if let Some(rocketmq) = &mut sink.rocketmq {
                self.resolve_rocketmq(&mut rocketmq.security);
            }
        }
    }

    fn resolve_kafka(&self, security: &mut sink_kafka::config::Security) {
        self.resolve([
            &mut security.ca,
            &mut security.certificate,
            &mut security.key,
            &mut security.token_file,
        ]);
    }

    #[cfg(feature = "rocketmq")]
    fn resolve_rocketmq(&self, security: &mut sink_rocketmq::config::Security) {
        self.resolve([
            &mut security.ca,
            &mut security.certificate,
            &mut security.key,
        ]);
    }

    /// Makes paths of the config full, where they are set.
    fn resolve<const N: usize>(&self, files: [&mut Option<PathBuf>; N]) {
        for file in files {
            *file = file.take().map(|file| self.path(&file));
        }
    }

    /// The journal's directory.
    pub fn journal_dir(&self, config: &Config) -> PathBuf {
        match &config.journal.dir {
            Some(dir) => self.path(dir),
            None => self.folder.join(format!("{}.journal", self.name)),
        }
    }
}

/// The journal's options. The key file is made when it is missing and `create` says so.
pub fn journal_options(
    config: &Config,
    place: &Place,
    create: bool,
) -> Result<journal::Options, journal::Error> {
    let dir = place.journal_dir(config);
    let key_file = match &config.journal.encryption.key_file {
        Some(file) => place.path(file),
        None => dir.with_extension("key"),
    };
    // A key made anew would not open a journal that is there: then its file is missing.
    let fresh = !std::fs::read_dir(&dir).is_ok_and(|mut files| files.next().is_some());
    let keys = match create && fresh {
        true => FileKeys::open_or_create(&key_file)?,
        false => FileKeys::open(&key_file)?,
    };
    let mut options = journal::Options::new(dir, Arc::new(keys));
    options.retention = config.journal.retention.0;
    options.disk_max = config.journal.disk_max.map(|max| max.0);
    options.segment_bytes = config.journal.segment_size.0;
    options.compression = match config.journal.compression {
        CompressionConfig::Lz4 => Compression::Lz4,
        CompressionConfig::Zstd => Compression::Zstd1,
        CompressionConfig::None => Compression::None,
    };
    Ok(options)
}

/// The source, resuming where the journal ends.
pub fn source(
    config: &SourceConfig,
    place: &Place,
    resumed: Resumed,
) -> Result<Box<dyn Source>, SourceError> {
    let resume = source_recorded::Resume {
        position: resumed.position,
        control: resumed.control,
        spool: resumed.spool,
        anew: resumed.anew,
    };
    match config {
        SourceConfig::Mysql(config) | SourceConfig::Mariadb(config) => {
            let config = config.clone();
            Ok(Box::new(source_mysql::MysqlSource::open(config, resume)?))
        }
        SourceConfig::Topic(config) => {
            let config = source_topic::TopicConfig::clone(config);
            let resume = source_topic::Resume {
                position: resume.position,
                control: resume.control,
            };
            Ok(Box::new(source_topic::TopicSource::open(config, resume)?))
        }
        SourceConfig::Recorded(config) => {
            let mut config = config.clone();
            for file in &mut config.files {
                *file = place.path(file);
            }
            Ok(Box::new(source_recorded::RecordedSource::open(
                config, resume,
            )?))
        }
    }
}

/// One sink.
///
/// Errors: `Invalid` for settings that cannot be.
pub fn sink(config: &SinkConfig, place: &Place) -> Result<Box<dyn Sink>, SinkError> {
    let invalid = |what: String| {
        SinkError::new(change::contract::ErrorKind::Invalid, "configure sink", what)
            .at(config.name.clone())
    };
    if let Some(kafka) = &config.kafka {
        let identity = Identity {
            pipeline: place.name.clone(),
            sink: config.name.clone(),
        };
        return Ok(Box::new(KafkaSink::new(kafka.clone(), &identity)?));
    }
    #[cfg(feature = "rocketmq")]
    if let Some(rocketmq) = &config.rocketmq {
        return rocketmq_sink(rocketmq, config, place);
    }
    if let Some(clickhouse) = &config.clickhouse {
        let identity = sink_clickhouse::Identity {
            pipeline: place.name.clone(),
            sink: config.name.clone(),
        };
        return Ok(Box::new(ClickHouseSink::new(
            ClickHouseConfig::clone(clickhouse),
            &identity,
        )?));
    }
    if let Some(file) = &config.file {
        let encoder = file
            .format
            .encoder_that_may_hold(&file.format_options)
            .map_err(invalid)?;
        let settings = sink_file::FileConfig {
            path: place.path(&file.path),
            rotate_bytes: file.rotate_size.map(|size| size.0),
            fsync: match file.fsync {
                FsyncConfig::Flush => Fsync::Flush,
                FsyncConfig::Never => Fsync::Never,
            },
        };
        return Ok(Box::new(FileSink::new(settings, encoder)));
    }
    let stdout = config.stdout.clone().unwrap_or_default();
    let encoder = stdout
        .format
        .encoder_that_may_hold(&stdout.format_options)
        .map_err(invalid)?;
    Ok(Box::new(StdoutSink::new(encoder)))
}

#[cfg(feature = "rocketmq")]
fn rocketmq_sink(
    rocketmq: &sink_rocketmq::RocketMqConfig,
    config: &SinkConfig,
    place: &Place,
) -> Result<Box<dyn Sink>, SinkError> {
    let identity = sink_rocketmq::Identity {
        pipeline: place.name.clone(),
        sink: config.name.clone(),
    };
    Ok(Box::new(sink_rocketmq::RocketMqSink::new(
        rocketmq.clone(),
        &identity,
    )?))
}

/// How one sink is driven.
pub fn delivery(config: &SinkConfig, recover: bool) -> DeliveryConfig {
    let is_broker = config.kafka.is_some() || config.is_rocketmq();
    let is_kafka = config.kafka.is_some();
    let delay = match (is_broker, config.clickhouse.is_some()) {
        (true, _) => Duration::from_millis(20),
        (_, true) => Duration::from_millis(200),
        _ => Duration::from_millis(100),
    };
    // Kafka transactions and ClickHouse inserts have a fixed cost: let them grow when behind.
    let bytes = match (is_kafka, config.clickhouse.is_some()) {
        (true, _) => config.batch_size.0.max(8 << 20),
        (_, true) => config.batch_size.0.max(32 << 20),
        _ => config.batch_size.0,
    };
    DeliveryConfig {
        name: config.name.clone(),
        tables: Patterns::new(&config.tables),
        on_full: match config.on_full {
            OnFullConfig::Pause => OnFull::Pause,
            OnFullConfig::Detach => OnFull::Detach,
        },
        start_now: config.start == StartConfig::Now,
        batch_delay: config.batch_delay.map_or(delay, |span| span.0),
        batch_bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        parked_keys_max: config.parked_keys_max,
        accept_foreign_cursor: recover,
        ends_with_reader: config.stdout.is_some(),
    }
}
