//! The first token of a client.
//!
//! With OAUTHBEARER the client asks for tokens in an event that is handled when it is polled. Until it has one
//! it connects to nobody: a question that is asked before the first poll waits until its time is over, and an
//! admin's client is never polled. So each client gets its first token when it is made; the later ones come by
//! polling.

use crate::{Refused, Security};
use rdkafka::bindings::rd_kafka_oauthbearer_set_token;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::ffi::{CStr, CString, c_char};

const WHAT_TO_DO: &str = "put the token, and nothing else, into security.token_file";

/// Gives a client that was just made its token, if this security asks for one.
///
/// Errors: [`Refused`] when the token cannot be read or is none.
pub fn give_token<C: ClientContext>(
    client: &Client<C>,
    security: &Security,
) -> Result<(), Refused> {
    if !security.wants_token() {
        return Ok(());
    }
    let refused = |what: String| Refused::new(what, WHAT_TO_DO);
    let token = client
        .context()
        .generate_oauth_token(None)
        .map_err(|error| refused(error.to_string()))?;
    let text =
        |text: String| CString::new(text).map_err(|_| refused("the token has a zero byte".into()));
    let (value, principal) = (text(token.token)?, text(token.principal_name)?);
    let mut reason: [c_char; 512] = [0; 512];
    #[expect(
        unsafe_code,
        reason = "the client lives as long as its borrow, both texts end with a zero and are copied \
                  before the call returns, no extensions are given, and the reason is written within \
                  its length"
    )]
    let code = unsafe {
        rd_kafka_oauthbearer_set_token(
            client.native_ptr(),
            value.as_ptr(),
            token.lifetime_ms,
            principal.as_ptr(),
            std::ptr::null_mut(),
            0,
            reason.as_mut_ptr(),
            reason.len(),
        )
    };
    match RDKafkaErrorCode::from(code) {
        RDKafkaErrorCode::NoError => Ok(()),
        code => {
            let bytes: Vec<u8> = reason.iter().map(|c| c.cast_unsigned()).collect();
            let told = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
            let error = KafkaError::Global(code);
            Err(refused(format!("{error}: {}", told.to_string_lossy())))
        }
    }
}
