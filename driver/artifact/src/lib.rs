//! What the compiler and the runtime share: requests, artifacts, worker frames, block formats, fingerprint.
