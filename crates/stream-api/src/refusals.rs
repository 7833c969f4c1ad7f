//! Calls whose signature was refused, for the audit: each one, as long as they are few; beyond that how many.
//!
//! Nobody has to know a key to make such a call, so they may not fill the disk.

use crate::call::Caller;
use crate::error::ApiError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Over this time they are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// So many of a window are recorded one by one.
const RECORDED_MAX: u64 = 120;

/// Calls of one window that were not recorded one by one.
#[derive(Debug, Clone)]
pub(crate) struct Skipped {
    pub count: u64,
    /// Of the last of them.
    pub caller: Caller,
    /// Of the last of them.
    pub error: ApiError,
}

#[derive(Default)]
struct Window {
    began: Option<Instant>,
    recorded: u64,
    skipped: Option<Skipped>,
}

/// Counts them.
#[derive(Default)]
pub(crate) struct Refusals {
    window: Mutex<Window>,
}

impl Refusals {
    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this one is recorded by itself.
    pub fn is_recorded(&self, caller: &Caller, error: &ApiError) -> bool {
        let mut window = self.window();
        window.began.get_or_insert_with(Instant::now);
        if window.recorded < RECORDED_MAX {
            window.recorded += 1;
            return true;
        }
        let count = window.skipped.as_ref().map_or(0, |skipped| skipped.count);
        window.skipped = Some(Skipped {
            count: count + 1,
            caller: caller.clone(),
            error: error.clone(),
        });
        false
    }

    /// What a window that is over left to be told; `at_once` also of one that is not.
    pub fn take(&self, at_once: bool) -> Option<Skipped> {
        let mut window = self.window();
        let is_over = window.began.is_some_and(|began| began.elapsed() >= WINDOW);
        if !is_over && !at_once {
            return None;
        }
        std::mem::take(&mut *window).skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn beyond_a_rate_only_their_number_is_told() {
        let refusals = Refusals::default();
        let caller = Caller {
            user_agent: "x".into(),
            ..Caller::default()
        };
        let error = ApiError::new(Code::InvalidSignature, "no");
        let recorded = (0..1000)
            .filter(|_| refusals.is_recorded(&caller, &error))
            .count() as u64;
        assert_eq!(recorded, RECORDED_MAX);
        assert!(refusals.take(false).is_none(), "the window is not over");
        let skipped = refusals.take(true).unwrap();
        assert_eq!(
            (skipped.count, skipped.caller.user_agent.as_str()),
            (1000 - RECORDED_MAX, "x")
        );
        assert!(refusals.take(true).is_none());
        assert!(refusals.is_recorded(&caller, &error), "a new window");
    }
}
