//! The stream API in the config: its own room says what it may hold.

pub use stream_api::ApiConfig;
