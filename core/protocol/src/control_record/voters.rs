//! The voter set. Its structs bear names that another control record also uses: hence a file of its own.

use pelton_model::TopicId;
use pelton_model::record_type::control::{
    KRaftVersionFeature, VotersRecord, VotersRecordEndpoint as Endpoint, VotersRecordVoter as Voter,
};

use crate::{message_for, wire};

wire! {
    Endpoint {
        name: String, 0+;
        host: String, 0+;
        port: u16, 0+;
    }
}

wire! {
    KRaftVersionFeature {
        min_supported_version: i16, 0+;
        max_supported_version: i16, 0+;
    }
}

wire! {
    Voter {
        voter_id: i32, 0+;
        voter_directory_id: TopicId, 0+;
        endpoints: Vec<Endpoint>, 0+;
        kraft_version_feature: KRaftVersionFeature, 0+;
    }
}

message_for! {
    VotersRecord, key 6, versions 0-0, flexible 0+ {
        version: i16, 0+;
        voters: Vec<Voter>, 0+;
    }
}
