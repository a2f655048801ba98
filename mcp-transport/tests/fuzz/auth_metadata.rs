use mcp_transport::auth::{
    ClientRecord, ClientSource, ResourceMetadata, ServerMetadata, WebUrl, canonical_resource,
    resource_metadata_places, server_metadata_places, speaks_of,
};
use serde_json::Value;

/// Documents about resources, authorization servers and clients: whatever they hold, nothing leads from
/// them to another origin unseen, and a client is settled after it was settled once.
pub(crate) fn run(data: &[u8]) {
    let server = WebUrl::parse("https://rs.example/a/b?c").expect("a URL");
    if let Some(metadata) = ResourceMetadata::parse(data) {
        assert!(!metadata.resource.is_empty() && !metadata.authorization_servers.is_empty());
        if speaks_of(&metadata.resource, &server) {
            let resource = WebUrl::parse(&metadata.resource).expect("it was read before");
            assert_eq!(resource.origin(), server.origin());
            assert!(canonical_resource(&server).starts_with(&resource.origin().to_string()));
        }
        for issuer in metadata.authorization_servers.iter().filter_map(|issuer| WebUrl::parse(issuer).ok()) {
            let places = server_metadata_places(&issuer);
            assert!(places.iter().all(|place| place.origin() == issuer.origin()));
            assert!((2..=3).contains(&places.len()));
            assert!(resource_metadata_places(&server, Some(&issuer)).len() <= 3);
        }
    }
    let methods = ServerMetadata::parse(data).and_then(|found| found.token_endpoint_auth_methods_supported);
    if let Ok(Value::Object(members)) = serde_json::from_slice(data)
        && let Ok(client) = ClientRecord::read(ClientSource::Registered, members, methods.as_deref())
    {
        let mut again = client.clone();
        assert!(!again.normalise(methods.as_deref()));
        assert_eq!(again, client);
        let has_method = client.token_endpoint_auth_method.as_deref().is_some_and(|method| method != "none");
        assert!(client.client_secret.is_none() || has_method, "a secret is never without its method");
    }
}
