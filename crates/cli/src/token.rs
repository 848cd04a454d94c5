//! `enact token`: a new token, and the line by which a server knows it; or the line by which it knows a certificate.

use std::path::Path;

use enact_rebel::Caller;
use enact_server::{ClientCertificate, Token, caller_from_outside};

use crate::args;
use crate::failure::Failure;
use crate::trust;

/// Standard output has the token and the line, and nothing else, for a script to take them.
pub(crate) fn run(args: &args::Token) -> Result<(), Failure> {
    let caller = caller_from_outside(&args.id, args.roles.iter().map(String::as_str)).map_err(Failure::Caller)?;
    if let Some(file) = &args.certificate {
        return certificate(file, args, &caller);
    }
    let token = random()?;
    println!("{token}\n{}", token.line(&caller, args.until));
    eprintln!(
        "The first line is the token: give it to {}, it is shown only here and now. The second line is for the file of \
         `enact serve --tokens FILE`, which nobody but its owner may read (chmod 600 FILE); it is read at the start, once a minute, and on SIGHUP.",
        caller.id()
    );
    Ok(())
}

/// Standard output has the line, with the name that lasts longest: a URI, a DNS name, or the digest.
fn certificate(file: &Path, args: &args::Token, caller: &Caller) -> Result<(), Failure> {
    let chain = trust::certificates(file).map_err(Failure::Certificate)?;
    let certificate = chain.first().and_then(|certificate| ClientCertificate::from_der(certificate));
    let broken = || Failure::Certificate(trust::unfit(file, &"its first certificate cannot be read"));
    let certificate = certificate.ok_or_else(broken)?;
    let (name, others) = certificate.names().split_first().expect("a certificate has a digest");
    println!("{}", name.line(caller, args.until));
    let others = others.iter().map(|name| format!(" Instead of its first word, the certificate is also `{name}`."));
    eprintln!(
        "The line is for the file of `enact serve --tokens FILE`, whose server demands certificates (--tls-client-ca).{}",
        others.collect::<String>()
    );
    Ok(())
}

/// A new token.
pub(crate) fn random() -> Result<Token, Failure> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(Failure::Random)?;
    Ok(Token::from_random(random))
}
