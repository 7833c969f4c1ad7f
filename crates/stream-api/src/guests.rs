//! How many connections one address has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts connections by address.
pub(crate) struct Guests {
    counts: Mutex<HashMap<IpAddr, usize>>,
    most: usize,
}

/// One connection; it counts until it goes.
pub(crate) struct Guest {
    guests: Arc<Guests>,
    address: IpAddr,
}

impl Guests {
    /// At most `most` connections of one address; 0 for any number.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            counts: Mutex::default(),
            most,
        })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more connection of an address; none when it has as many as it may.
    pub fn welcome(self: &Arc<Self>, address: IpAddr) -> Option<Guest> {
        let address = address.to_canonical();
        let mut counts = self.counts();
        let count = counts.entry(address).or_default();
        if self.most > 0 && *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Guest {
            guests: Arc::clone(self),
            address,
        })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut counts = self.guests.counts();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_so_many_and_another_is_let_in() {
        let guests = Guests::new(2);
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let first = guests.welcome(one).unwrap();
        let _second = guests.welcome(one).unwrap();
        assert!(guests.welcome(one).is_none());
        assert!(guests.welcome(other).is_some());
        drop(first);
        assert!(guests.welcome(one).is_some());
        assert!(guests.counts().len() == 1, "who has none is not remembered");
        let any = Guests::new(0);
        let all: Vec<_> = (0..100).map(|_| any.welcome(one)).collect();
        assert!(all.iter().all(Option::is_some));
    }
}
