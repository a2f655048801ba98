use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use mcp_proto::Secret;

use super::client_record::{AuthMethod, ClientRecord, InvalidClient};
use super::form::{self, Form};
use super::oauth_http::{OAuthRequest, TOKEN_LIMIT};
use super::web_url::WebUrl;

/// Makes a request to a token endpoint, in which the client proves who it is in exactly one way.
///
/// The record is normalised first, whatever has been done to it since it was read.
///
/// # Errors
///
/// The record cannot be used.
///
/// # Source
///
/// RFC 6749, section 2.3.1.
pub fn token_request(
    endpoint: &WebUrl,
    form: Form,
    client: &ClientRecord,
    server_methods: Option<&[String]>,
) -> Result<OAuthRequest, InvalidClient> {
    let mut client = client.clone();
    client.normalise(server_methods);
    let mut headers = HeaderMap::new();
    let id = client.client_id.as_str();
    let form = match (client.auth_method()?, &client.client_secret) {
        (AuthMethod::ClientSecretBasic, Some(secret)) => {
            headers.insert(header::AUTHORIZATION, basic(id, secret)?);
            form
        }
        (AuthMethod::ClientSecretPost, Some(secret)) => {
            form.with("client_id", id).with("client_secret", secret.clone())
        }
        (AuthMethod::None, None) => form.with("client_id", id),
        // Normalising has given every secret a method, and `auth_method` has refused the opposite.
        _ => return Err(InvalidClient::NoSecret),
    };
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    Ok(OAuthRequest::post(endpoint.clone(), headers, form.encode(), TOKEN_LIMIT))
}

/// Both parts are encoded as in a form before they are joined, so that a `:` in either is no end.
fn basic(id: &str, secret: &Secret) -> Result<HeaderValue, InvalidClient> {
    let pair =
        Secret::new(format!("{}:{}", form::encode(id).expose(), form::encode(secret.expose()).expose()));
    let value = Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())));
    // Base64 fits into every header.
    let mut value = HeaderValue::from_str(value.expose()).map_err(|_| InvalidClient::NoSecret)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::ClientSource;

    const ODD: &str = "a:b%+ /é";

    fn request(secret: Option<&str>, method: Option<&str>) -> Result<(Option<String>, Form), InvalidClient> {
        let mut client = ClientRecord::new(ClientSource::Registered, "id:1");
        client.client_secret = secret.map(Secret::from);
        client.token_endpoint_auth_method = method.map(str::to_owned);
        let endpoint = WebUrl::parse("https://a.example/token").unwrap();
        let request = token_request(&endpoint, Form::new().with("grant_type", "x"), &client, None)?;
        assert!(!format!("{request:?}").contains("a%3Ab"));
        let header = request.headers.get(header::AUTHORIZATION);
        assert!(header.is_none_or(HeaderValue::is_sensitive));
        let header = header.map(|value| value.to_str().unwrap().to_owned());
        Ok((header, Form::parse(request.body.unwrap().expose())))
    }

    #[test]
    fn n06_the_secret_travels_in_one_way_alone() {
        let value = |form: &Form, name| form.get(name).map(|value| value.expose().to_owned());
        let (header, form) = request(Some(ODD), Some("client_secret_basic")).unwrap();
        let header = header.unwrap();
        let pair = STANDARD.decode(header.strip_prefix("Basic ").unwrap()).unwrap();
        let pair = String::from_utf8(pair).unwrap();
        assert_eq!(pair, "id%3A1:a%3Ab%25%2B+%2F%C3%A9");
        assert_eq!((value(&form, "client_secret"), value(&form, "client_id")), (None, None));

        let (header, form) = request(Some(ODD), Some("client_secret_post")).unwrap();
        assert_eq!(header, None);
        assert_eq!(value(&form, "client_secret").as_deref(), Some(ODD));
        assert_eq!(value(&form, "client_id").as_deref(), Some("id:1"));

        let (header, form) = request(None, Some("none")).unwrap();
        assert_eq!((header, value(&form, "client_secret")), (None, None));
        assert_eq!(value(&form, "client_id").as_deref(), Some("id:1"));
        assert_eq!(value(&form, "grant_type").as_deref(), Some("x"));
    }

    #[test]
    fn f166_n04_a_record_is_normalised_before_each_request() {
        for poked in [None, Some(""), Some("none")] {
            let (header, form) = request(Some("s"), poked).unwrap();
            assert_eq!((header, form.repeats("client_secret")), (None, false));
            assert_eq!(form.get("client_secret").unwrap().expose(), "s");
        }
        assert_eq!(request(None, Some("client_secret_basic")).unwrap_err(), InvalidClient::NoSecret);
    }
}
