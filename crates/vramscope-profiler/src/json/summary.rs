//! A summary as JSON. Its fields have gpumemprof's names.

/// A summary, or gpumemprof's message if nothing was profiled.
pub(super) mod or_message {
    use serde::de::Error as _;
    use serde::ser::SerializeMap as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::profiler::ProfileSummary;

    #[derive(Deserialize)]
    struct SummaryKeys {
        message: Option<String>,
        #[serde(flatten)]
        summary: serde_json::Map<String, serde_json::Value>,
    }

    pub(crate) fn serialize<S: Serializer>(
        summary: &Option<ProfileSummary>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match summary {
            Some(summary) => summary.serialize(serializer),
            None => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("message", "No profiling results available")?;
                map.end()
            }
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<ProfileSummary>, D::Error> {
        let SummaryKeys { message, summary } = SummaryKeys::deserialize(deserializer)?;
        if message.is_some() && summary.is_empty() {
            return Ok(None);
        }
        // A value that is read from a tree has a key, but no line in the file.
        serde_path_to_error::deserialize(serde_json::Value::Object(summary)).map(Some).map_err(|error| {
            let path = error.path().to_string();
            let why = error.into_inner();
            D::Error::custom(if path == "." { why.to_string() } else { format!("{path}: {why}") })
        })
    }
}
