//! Written by `cargo run -p xtask -- codegen` from crates/api/data/jetstream-errors.tsv. Change it there.

use super::ErrorCode;

impl ErrorCode {
    /// `resource limits exceeded for account`
    pub const ACCOUNT_RESOURCES_EXCEEDED: Self = Self { err_code: 10002, code: 400, text: "resource limits exceeded for account" };
    /// `bad request`
    pub const BAD_REQUEST: Self = Self { err_code: 10003, code: 400, text: "bad request" };
    /// `incomplete results`
    pub const CLUSTER_INCOMPLETE: Self = Self { err_code: 10004, code: 503, text: "incomplete results" };
    /// `{err}`
    pub const CLUSTER_NO_PEERS: Self = Self { err_code: 10005, code: 400, text: "{err}" };
    /// `JetStream not in clustered mode`
    pub const CLUSTER_NOT_ACTIVE: Self = Self { err_code: 10006, code: 500, text: "JetStream not in clustered mode" };
    /// `JetStream cluster not assigned to this server`
    pub const CLUSTER_NOT_ASSIGNED: Self = Self { err_code: 10007, code: 500, text: "JetStream cluster not assigned to this server" };
    /// `JetStream system temporarily unavailable`
    pub const CLUSTER_NOT_AVAIL: Self = Self { err_code: 10008, code: 503, text: "JetStream system temporarily unavailable" };
    /// `JetStream cluster can not handle request`
    pub const CLUSTER_NOT_LEADER: Self = Self { err_code: 10009, code: 500, text: "JetStream cluster can not handle request" };
    /// `JetStream clustering support required`
    pub const CLUSTER_REQUIRED: Self = Self { err_code: 10010, code: 503, text: "JetStream clustering support required" };
    /// `tags placement not supported for operation`
    pub const CLUSTER_TAGS: Self = Self { err_code: 10011, code: 400, text: "tags placement not supported for operation" };
    /// `{err}`
    pub const CONSUMER_CREATE: Self = Self { err_code: 10012, code: 500, text: "{err}" };
    /// `consumer name already in use`
    pub const CONSUMER_NAME_EXIST: Self = Self { err_code: 10013, code: 400, text: "consumer name already in use" };
    /// `consumer not found`
    pub const CONSUMER_NOT_FOUND: Self = Self { err_code: 10014, code: 404, text: "consumer not found" };
    /// `deliver subject not valid`
    pub const SNAPSHOT_DELIVER_SUBJECT_INVALID: Self = Self { err_code: 10015, code: 400, text: "deliver subject not valid" };
    /// `consumer expected to be durable but no durable name set in subject`
    pub const CONSUMER_DURABLE_NAME_NOT_IN_SUBJECT: Self = Self { err_code: 10016, code: 400, text: "consumer expected to be durable but no durable name set in subject" };
    /// `consumer name in subject does not match durable name in request`
    pub const CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT: Self = Self { err_code: 10017, code: 400, text: "consumer name in subject does not match durable name in request" };
    /// `consumer expected to be durable but a durable name was not set`
    pub const CONSUMER_DURABLE_NAME_NOT_SET: Self = Self { err_code: 10018, code: 400, text: "consumer expected to be durable but a durable name was not set" };
    /// `consumer expected to be ephemeral but detected a durable name set in subject`
    pub const CONSUMER_EPHEMERAL_WITH_DURABLE_IN_SUBJECT: Self = Self { err_code: 10019, code: 400, text: "consumer expected to be ephemeral but detected a durable name set in subject" };
    /// `consumer expected to be ephemeral but a durable name was set in request`
    pub const CONSUMER_EPHEMERAL_WITH_DURABLE_NAME: Self = Self { err_code: 10020, code: 400, text: "consumer expected to be ephemeral but a durable name was set in request" };
    /// `stream external api prefix {prefix} must not overlap with {subject}`
    pub const STREAM_EXTERNAL_API_OVERLAP: Self = Self { err_code: 10021, code: 400, text: "stream external api prefix {prefix} must not overlap with {subject}" };
    /// `stream external delivery prefix {prefix} overlaps with stream subject {subject}`
    pub const STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS: Self = Self { err_code: 10022, code: 400, text: "stream external delivery prefix {prefix} overlaps with stream subject {subject}" };
    /// `insufficient resources`
    pub const INSUFFICIENT_RESOURCES: Self = Self { err_code: 10023, code: 503, text: "insufficient resources" };
    /// `stream external delivery prefix {prefix} must not contain wildcards`
    pub const STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ: Self = Self { err_code: 10024, code: 400, text: "stream external delivery prefix {prefix} must not contain wildcards" };
    /// `invalid JSON: {err}`
    pub const INVALID_JSON: Self = Self { err_code: 10025, code: 400, text: "invalid JSON: {err}" };
    /// `maximum consumers limit reached`
    pub const MAXIMUM_CONSUMERS_LIMIT: Self = Self { err_code: 10026, code: 400, text: "maximum consumers limit reached" };
    /// `maximum number of streams reached`
    pub const MAXIMUM_STREAMS_LIMIT: Self = Self { err_code: 10027, code: 400, text: "maximum number of streams reached" };
    /// `insufficient memory resources available`
    pub const MEMORY_RESOURCES_EXCEEDED: Self = Self { err_code: 10028, code: 500, text: "insufficient memory resources available" };
    /// `{err}`
    pub const MIRROR_CONSUMER_SETUP_FAILED: Self = Self { err_code: 10029, code: 500, text: "{err}" };
    /// `stream mirror must have max message size >= source`
    pub const MIRROR_MAX_MESSAGE_SIZE_TOO_BIG: Self = Self { err_code: 10030, code: 400, text: "stream mirror must have max message size >= source" };
    /// `stream mirrors can not also contain other sources`
    pub const MIRROR_WITH_SOURCES: Self = Self { err_code: 10031, code: 400, text: "stream mirrors can not also contain other sources" };
    /// `stream mirrors can not have both start seq and start time configured`
    pub const MIRROR_WITH_START_SEQ_AND_TIME: Self = Self { err_code: 10032, code: 400, text: "stream mirrors can not have both start seq and start time configured" };
    /// `stream mirrors can not contain filtered subjects`
    pub const MIRROR_WITH_SUBJECT_FILTERS: Self = Self { err_code: 10033, code: 400, text: "stream mirrors can not contain filtered subjects" };
    /// `stream mirrors can not contain subjects`
    pub const MIRROR_WITH_SUBJECTS: Self = Self { err_code: 10034, code: 400, text: "stream mirrors can not contain subjects" };
    /// `account not found`
    pub const NO_ACCOUNT: Self = Self { err_code: 10035, code: 503, text: "account not found" };
    /// `not currently supported in clustered mode`
    pub const CLUSTER_UN_SUPPORT_FEATURE: Self = Self { err_code: 10036, code: 503, text: "not currently supported in clustered mode" };
    /// `no message found`
    pub const NO_MESSAGE_FOUND: Self = Self { err_code: 10037, code: 404, text: "no message found" };
    /// `expected an empty request payload`
    pub const NOT_EMPTY_REQUEST: Self = Self { err_code: 10038, code: 400, text: "expected an empty request payload" };
    /// `JetStream not enabled for account`
    pub const NOT_ENABLED_FOR_ACCOUNT: Self = Self { err_code: 10039, code: 503, text: "JetStream not enabled for account" };
    /// `peer not a member`
    pub const CLUSTER_PEER_NOT_MEMBER: Self = Self { err_code: 10040, code: 400, text: "peer not a member" };
    /// `{err}`
    pub const RAFT_GENERAL: Self = Self { err_code: 10041, code: 500, text: "{err}" };
    /// `JetStream unable to subscribe to restore snapshot {subject}: {err}`
    pub const RESTORE_SUBSCRIBE_FAILED: Self = Self { err_code: 10042, code: 500, text: "JetStream unable to subscribe to restore snapshot {subject}: {err}" };
    /// `sequence {seq} not found`
    pub const SEQUENCE_NOT_FOUND: Self = Self { err_code: 10043, code: 400, text: "sequence {seq} not found" };
    /// `server is not a member of the cluster`
    pub const CLUSTER_SERVER_NOT_MEMBER: Self = Self { err_code: 10044, code: 400, text: "server is not a member of the cluster" };
    /// `{err}`
    pub const SOURCE_CONSUMER_SETUP_FAILED: Self = Self { err_code: 10045, code: 500, text: "{err}" };
    /// `stream source must have max message size >= target`
    pub const SOURCE_MAX_MESSAGE_SIZE_TOO_BIG: Self = Self { err_code: 10046, code: 400, text: "stream source must have max message size >= target" };
    /// `insufficient storage resources available`
    pub const STORAGE_RESOURCES_EXCEEDED: Self = Self { err_code: 10047, code: 500, text: "insufficient storage resources available" };
    /// `{err}`
    pub const STREAM_ASSIGNMENT: Self = Self { err_code: 10048, code: 500, text: "{err}" };
    /// `{err}`
    pub const STREAM_CREATE: Self = Self { err_code: 10049, code: 500, text: "{err}" };
    /// `{err}`
    pub const STREAM_DELETE: Self = Self { err_code: 10050, code: 500, text: "{err}" };
    /// `{err}`
    pub const STREAM_GENERAL: Self = Self { err_code: 10051, code: 500, text: "{err}" };
    /// `{err}`
    pub const STREAM_INVALID_CONFIG: Self = Self { err_code: 10052, code: 500, text: "{err}" };
    /// `{err}`
    pub const STREAM_LIMITS: Self = Self { err_code: 10053, code: 500, text: "{err}" };
    /// `message size exceeds maximum allowed`
    pub const STREAM_MESSAGE_EXCEEDS_MAXIMUM: Self = Self { err_code: 10054, code: 400, text: "message size exceeds maximum allowed" };
    /// `stream mirror configuration can not be updated`
    pub const STREAM_MIRROR_NOT_UPDATABLE: Self = Self { err_code: 10055, code: 400, text: "stream mirror configuration can not be updated" };
    /// `stream name in subject does not match request`
    pub const STREAM_MISMATCH: Self = Self { err_code: 10056, code: 400, text: "stream name in subject does not match request" };
    /// `{err}`
    pub const STREAM_MSG_DELETE_FAILED: Self = Self { err_code: 10057, code: 500, text: "{err}" };
    /// `stream name already in use with a different configuration`
    pub const STREAM_NAME_EXIST: Self = Self { err_code: 10058, code: 400, text: "stream name already in use with a different configuration" };
    /// `stream not found`
    pub const STREAM_NOT_FOUND: Self = Self { err_code: 10059, code: 404, text: "stream not found" };
    /// `expected stream does not match`
    pub const STREAM_NOT_MATCH: Self = Self { err_code: 10060, code: 400, text: "expected stream does not match" };
    /// `Replicas configuration can not be updated`
    pub const STREAM_REPLICAS_NOT_UPDATABLE: Self = Self { err_code: 10061, code: 400, text: "Replicas configuration can not be updated" };
    /// `restore failed: {err}`
    pub const STREAM_RESTORE: Self = Self { err_code: 10062, code: 500, text: "restore failed: {err}" };
    /// `expected stream sequence does not match`
    pub const STREAM_SEQUENCE_NOT_MATCH: Self = Self { err_code: 10063, code: 503, text: "expected stream sequence does not match" };
    /// `snapshot failed: {err}`
    pub const STREAM_SNAPSHOT: Self = Self { err_code: 10064, code: 500, text: "snapshot failed: {err}" };
    /// `subjects overlap with an existing stream`
    pub const STREAM_SUBJECT_OVERLAP: Self = Self { err_code: 10065, code: 400, text: "subjects overlap with an existing stream" };
    /// `{err}`
    pub const STREAM_TEMPLATE_CREATE: Self = Self { err_code: 10066, code: 500, text: "{err}" };
    /// `{err}`
    pub const STREAM_TEMPLATE_DELETE: Self = Self { err_code: 10067, code: 500, text: "{err}" };
    /// `template not found`
    pub const STREAM_TEMPLATE_NOT_FOUND: Self = Self { err_code: 10068, code: 404, text: "template not found" };
    /// `{err}`
    pub const STREAM_UPDATE: Self = Self { err_code: 10069, code: 500, text: "{err}" };
    /// `wrong last msg ID: {id}`
    pub const STREAM_WRONG_LAST_MSG_ID: Self = Self { err_code: 10070, code: 400, text: "wrong last msg ID: {id}" };
    /// `wrong last sequence: {seq}`
    pub const STREAM_WRONG_LAST_SEQUENCE: Self = Self { err_code: 10071, code: 400, text: "wrong last sequence: {seq}" };
    /// `JetStream unable to open temp storage for restore`
    pub const TEMP_STORAGE_FAILED: Self = Self { err_code: 10072, code: 500, text: "JetStream unable to open temp storage for restore" };
    /// `template name in subject does not match request`
    pub const TEMPLATE_NAME_NOT_MATCH_SUBJECT: Self = Self { err_code: 10073, code: 400, text: "template name in subject does not match request" };
    /// `replicas > 1 not supported in non-clustered mode`
    pub const STREAM_REPLICAS_NOT_SUPPORTED: Self = Self { err_code: 10074, code: 500, text: "replicas > 1 not supported in non-clustered mode" };
    /// `peer remap failed`
    pub const PEER_REMAP: Self = Self { err_code: 10075, code: 503, text: "peer remap failed" };
    /// `JetStream not enabled`
    pub const NOT_ENABLED: Self = Self { err_code: 10076, code: 503, text: "JetStream not enabled" };
    /// `{err}`
    pub const STREAM_STORE_FAILED: Self = Self { err_code: 10077, code: 503, text: "{err}" };
    /// `consumer config required`
    pub const CONSUMER_CONFIG_REQUIRED: Self = Self { err_code: 10078, code: 400, text: "consumer config required" };
    /// `consumer deliver subject has wildcards`
    pub const CONSUMER_DELIVER_TO_WILDCARDS: Self = Self { err_code: 10079, code: 400, text: "consumer deliver subject has wildcards" };
    /// `consumer in push mode can not set max waiting`
    pub const CONSUMER_PUSH_MAX_WAITING: Self = Self { err_code: 10080, code: 400, text: "consumer in push mode can not set max waiting" };
    /// `consumer deliver subject forms a cycle`
    pub const CONSUMER_DELIVER_CYCLE: Self = Self { err_code: 10081, code: 400, text: "consumer deliver subject forms a cycle" };
    /// `consumer requires ack policy for max ack pending`
    pub const CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED: Self = Self { err_code: 10082, code: 400, text: "consumer requires ack policy for max ack pending" };
    /// `consumer idle heartbeat needs to be >= 100ms`
    pub const CONSUMER_SMALL_HEARTBEAT: Self = Self { err_code: 10083, code: 400, text: "consumer idle heartbeat needs to be >= 100ms" };
    /// `consumer in pull mode requires explicit ack policy on workqueue stream`
    pub const CONSUMER_PULL_REQUIRES_ACK: Self = Self { err_code: 10084, code: 400, text: "consumer in pull mode requires explicit ack policy on workqueue stream" };
    /// `consumer in pull mode requires a durable name`
    pub const CONSUMER_PULL_NOT_DURABLE: Self = Self { err_code: 10085, code: 400, text: "consumer in pull mode requires a durable name" };
    /// `consumer in pull mode can not have rate limit set`
    pub const CONSUMER_PULL_WITH_RATE_LIMIT: Self = Self { err_code: 10086, code: 400, text: "consumer in pull mode can not have rate limit set" };
    /// `consumer max waiting needs to be positive`
    pub const CONSUMER_MAX_WAITING_NEGATIVE: Self = Self { err_code: 10087, code: 400, text: "consumer max waiting needs to be positive" };
    /// `consumer idle heartbeat requires a push based consumer`
    pub const CONSUMER_HB_REQUIRES_PUSH: Self = Self { err_code: 10088, code: 400, text: "consumer idle heartbeat requires a push based consumer" };
    /// `consumer flow control requires a push based consumer`
    pub const CONSUMER_FC_REQUIRES_PUSH: Self = Self { err_code: 10089, code: 400, text: "consumer flow control requires a push based consumer" };
    /// `consumer direct requires a push based consumer`
    pub const CONSUMER_DIRECT_REQUIRES_PUSH: Self = Self { err_code: 10090, code: 400, text: "consumer direct requires a push based consumer" };
    /// `consumer direct requires an ephemeral consumer`
    pub const CONSUMER_DIRECT_REQUIRES_EPHEMERAL: Self = Self { err_code: 10091, code: 400, text: "consumer direct requires an ephemeral consumer" };
    /// `consumer direct on a mapped consumer`
    pub const CONSUMER_ON_MAPPED: Self = Self { err_code: 10092, code: 400, text: "consumer direct on a mapped consumer" };
    /// `consumer filter subject is not a valid subset of the interest subjects`
    pub const CONSUMER_FILTER_NOT_SUBSET: Self = Self { err_code: 10093, code: 400, text: "consumer filter subject is not a valid subset of the interest subjects" };
    /// `{err}`
    pub const CONSUMER_INVALID_POLICY: Self = Self { err_code: 10094, code: 400, text: "{err}" };
    /// `failed to parse consumer sampling configuration: {err}`
    pub const CONSUMER_INVALID_SAMPLING: Self = Self { err_code: 10095, code: 400, text: "failed to parse consumer sampling configuration: {err}" };
    /// `stream not valid`
    pub const STREAM_INVALID: Self = Self { err_code: 10096, code: 500, text: "stream not valid" };
    /// `header size exceeds maximum allowed of 64k`
    pub const STREAM_HEADER_EXCEEDS_MAXIMUM: Self = Self { err_code: 10097, code: 400, text: "header size exceeds maximum allowed of 64k" };
    /// `workqueue stream requires explicit ack`
    pub const CONSUMER_WQ_REQUIRES_EXPLICIT_ACK: Self = Self { err_code: 10098, code: 400, text: "workqueue stream requires explicit ack" };
    /// `multiple non-filtered consumers not allowed on workqueue stream`
    pub const CONSUMER_WQ_MULTIPLE_UNFILTERED: Self = Self { err_code: 10099, code: 400, text: "multiple non-filtered consumers not allowed on workqueue stream" };
    /// `filtered consumer not unique on workqueue stream`
    pub const CONSUMER_WQ_CONSUMER_NOT_UNIQUE: Self = Self { err_code: 10100, code: 400, text: "filtered consumer not unique on workqueue stream" };
    /// `consumer must be deliver all on workqueue stream`
    pub const CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL: Self = Self { err_code: 10101, code: 400, text: "consumer must be deliver all on workqueue stream" };
    /// `consumer name is too long, maximum allowed is {max}`
    pub const CONSUMER_NAME_TOO_LONG: Self = Self { err_code: 10102, code: 400, text: "consumer name is too long, maximum allowed is {max}" };
    /// `durable name can not contain '.', '*', '>'`
    pub const CONSUMER_BAD_DURABLE_NAME: Self = Self { err_code: 10103, code: 400, text: "durable name can not contain '.', '*', '>'" };
    /// `error creating store for consumer: {err}`
    pub const CONSUMER_STORE_FAILED: Self = Self { err_code: 10104, code: 500, text: "error creating store for consumer: {err}" };
    /// `consumer already exists and is still active`
    pub const CONSUMER_EXISTING_ACTIVE: Self = Self { err_code: 10105, code: 400, text: "consumer already exists and is still active" };
    /// `consumer replacement durable config not the same`
    pub const CONSUMER_REPLACEMENT_WITH_DIFFERENT_NAME: Self = Self { err_code: 10106, code: 400, text: "consumer replacement durable config not the same" };
    /// `consumer description is too long, maximum allowed is {max}`
    pub const CONSUMER_DESCRIPTION_TOO_LONG: Self = Self { err_code: 10107, code: 400, text: "consumer description is too long, maximum allowed is {max}" };
    /// `consumer with flow control also needs heartbeats`
    pub const CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS: Self = Self { err_code: 10108, code: 400, text: "consumer with flow control also needs heartbeats" };
    /// `invalid operation on sealed stream`
    pub const STREAM_SEALED: Self = Self { err_code: 10109, code: 400, text: "invalid operation on sealed stream" };
    /// `{err}`
    pub const STREAM_PURGE_FAILED: Self = Self { err_code: 10110, code: 500, text: "{err}" };
    /// `{err}`
    pub const STREAM_ROLLUP_FAILED: Self = Self { err_code: 10111, code: 500, text: "{err}" };
    /// `invalid push consumer deliver subject`
    pub const CONSUMER_INVALID_DELIVER_SUBJECT: Self = Self { err_code: 10112, code: 400, text: "invalid push consumer deliver subject" };
    /// `account requires a stream config to have max bytes set`
    pub const STREAM_MAX_BYTES_REQUIRED: Self = Self { err_code: 10113, code: 400, text: "account requires a stream config to have max bytes set" };
    /// `consumer max request batch needs to be > 0`
    pub const CONSUMER_MAX_REQUEST_BATCH_NEGATIVE: Self = Self { err_code: 10114, code: 400, text: "consumer max request batch needs to be > 0" };
    /// `consumer max request expires needs to be >= 1ms`
    pub const CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL: Self = Self { err_code: 10115, code: 400, text: "consumer max request expires needs to be >= 1ms" };
    /// `max deliver is required to be > length of backoff values`
    pub const CONSUMER_MAX_DELIVER_BACKOFF: Self = Self { err_code: 10116, code: 400, text: "max deliver is required to be > length of backoff values" };
    /// `subject details would exceed maximum allowed`
    pub const STREAM_INFO_MAX_SUBJECTS: Self = Self { err_code: 10117, code: 500, text: "subject details would exceed maximum allowed" };
    /// `stream is offline`
    pub const STREAM_OFFLINE: Self = Self { err_code: 10118, code: 500, text: "stream is offline" };
    /// `consumer is offline`
    pub const CONSUMER_OFFLINE: Self = Self { err_code: 10119, code: 500, text: "consumer is offline" };
    /// `no JetStream default or applicable tiered limit present`
    pub const NO_LIMITS: Self = Self { err_code: 10120, code: 400, text: "no JetStream default or applicable tiered limit present" };
    /// `consumer max ack pending exceeds system limit of {limit}`
    pub const CONSUMER_MAX_PENDING_ACK_EXCESS: Self = Self { err_code: 10121, code: 400, text: "consumer max ack pending exceeds system limit of {limit}" };
    /// `stream max bytes exceeds account limit max stream bytes`
    pub const STREAM_MAX_STREAM_BYTES_EXCEEDED: Self = Self { err_code: 10122, code: 400, text: "stream max bytes exceeds account limit max stream bytes" };
    /// `can not move and scale a stream in a single update`
    pub const STREAM_MOVE_AND_SCALE: Self = Self { err_code: 10123, code: 400, text: "can not move and scale a stream in a single update" };
    /// `stream move already in progress`
    pub const STREAM_MOVE_IN_PROGRESS: Self = Self { err_code: 10124, code: 400, text: "stream move already in progress" };
    /// `consumer max request batch exceeds server limit of {limit}`
    pub const CONSUMER_MAX_REQUEST_BATCH_EXCEEDED: Self = Self { err_code: 10125, code: 400, text: "consumer max request batch exceeds server limit of {limit}" };
    /// `consumer config replica count exceeds parent stream`
    pub const CONSUMER_REPLICAS_EXCEEDS_STREAM: Self = Self { err_code: 10126, code: 400, text: "consumer config replica count exceeds parent stream" };
    /// `Consumer name can not contain path separators`
    pub const CONSUMER_NAME_CONTAINS_PATH_SEPARATORS: Self = Self { err_code: 10127, code: 400, text: "Consumer name can not contain path separators" };
    /// `Stream name can not contain path separators`
    pub const STREAM_NAME_CONTAINS_PATH_SEPARATORS: Self = Self { err_code: 10128, code: 400, text: "Stream name can not contain path separators" };
    /// `stream reconfiguration not in progress`
    pub const STREAM_RECONFIGURE_NOT_IN_PROGRESS: Self = Self { err_code: 10129, code: 400, text: "stream reconfiguration not in progress" };
    /// `stream name already in use, cannot restore`
    pub const STREAM_NAME_EXIST_RESTORE_FAILED: Self = Self { err_code: 10130, code: 400, text: "stream name already in use, cannot restore" };
    /// `Consumer create request did not match filtered subject from create subject`
    pub const CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH: Self = Self { err_code: 10131, code: 400, text: "Consumer create request did not match filtered subject from create subject" };
    /// `Consumer Durable and Name have to be equal if both are provided`
    pub const CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH: Self = Self { err_code: 10132, code: 400, text: "Consumer Durable and Name have to be equal if both are provided" };
    /// `replicas count cannot be negative`
    pub const REPLICAS_COUNT_CANNOT_BE_NEGATIVE: Self = Self { err_code: 10133, code: 400, text: "replicas count cannot be negative" };
    /// `consumer config replicas must match interest retention stream's replicas`
    pub const CONSUMER_REPLICAS_SHOULD_MATCH_STREAM: Self = Self { err_code: 10134, code: 400, text: "consumer config replicas must match interest retention stream's replicas" };
    /// `consumer metadata exceeds maximum size of {limit}`
    pub const CONSUMER_METADATA_LENGTH: Self = Self { err_code: 10135, code: 400, text: "consumer metadata exceeds maximum size of {limit}" };
    /// `consumer cannot have both FilterSubject and FilterSubjects specified`
    pub const CONSUMER_DUPLICATE_FILTER_SUBJECTS: Self = Self { err_code: 10136, code: 400, text: "consumer cannot have both FilterSubject and FilterSubjects specified" };
    /// `consumer with multiple subject filters cannot use subject based API`
    pub const CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED: Self = Self { err_code: 10137, code: 400, text: "consumer with multiple subject filters cannot use subject based API" };
    /// `consumer subject filters cannot overlap`
    pub const CONSUMER_OVERLAPPING_SUBJECT_FILTERS: Self = Self { err_code: 10138, code: 400, text: "consumer subject filters cannot overlap" };
    /// `consumer filter in FilterSubjects cannot be empty`
    pub const CONSUMER_EMPTY_FILTER: Self = Self { err_code: 10139, code: 400, text: "consumer filter in FilterSubjects cannot be empty" };
    /// `duplicate source configuration detected`
    pub const SOURCE_DUPLICATE_DETECTED: Self = Self { err_code: 10140, code: 400, text: "duplicate source configuration detected" };
    /// `sourced stream name is invalid`
    pub const SOURCE_INVALID_STREAM_NAME: Self = Self { err_code: 10141, code: 400, text: "sourced stream name is invalid" };
    /// `mirrored stream name is invalid`
    pub const MIRROR_INVALID_STREAM_NAME: Self = Self { err_code: 10142, code: 400, text: "mirrored stream name is invalid" };
    /// `stream mirrors can not have first sequence configured`
    pub const MIRROR_WITH_FIRST_SEQ: Self = Self { err_code: 10143, code: 400, text: "stream mirrors can not have first sequence configured" };
    /// `source with multiple subject transforms cannot also have a single subject filter`
    pub const SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED: Self = Self { err_code: 10144, code: 400, text: "source with multiple subject transforms cannot also have a single subject filter" };
    /// `source transform source: {err}`
    pub const SOURCE_INVALID_SUBJECT_FILTER: Self = Self { err_code: 10145, code: 400, text: "source transform source: {err}" };
    /// `source transform: {err}`
    pub const SOURCE_INVALID_TRANSFORM_DESTINATION: Self = Self { err_code: 10146, code: 400, text: "source transform: {err}" };
    /// `source filters can not overlap`
    pub const SOURCE_OVERLAPPING_SUBJECT_FILTERS: Self = Self { err_code: 10147, code: 400, text: "source filters can not overlap" };
    /// `consumer already exists`
    pub const CONSUMER_ALREADY_EXISTS: Self = Self { err_code: 10148, code: 400, text: "consumer already exists" };
    /// `consumer does not exist`
    pub const CONSUMER_DOES_NOT_EXIST: Self = Self { err_code: 10149, code: 400, text: "consumer does not exist" };
    /// `mirror with multiple subject transforms cannot also have a single subject filter`
    pub const MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED: Self = Self { err_code: 10150, code: 400, text: "mirror with multiple subject transforms cannot also have a single subject filter" };
    /// `mirror transform source: {err}`
    pub const MIRROR_INVALID_SUBJECT_FILTER: Self = Self { err_code: 10151, code: 400, text: "mirror transform source: {err}" };
    /// `mirror subject filters can not overlap`
    pub const MIRROR_OVERLAPPING_SUBJECT_FILTERS: Self = Self { err_code: 10152, code: 400, text: "mirror subject filters can not overlap" };
    /// `consumer inactive threshold exceeds system limit of {limit}`
    pub const CONSUMER_INACTIVE_THRESHOLD_EXCESS: Self = Self { err_code: 10153, code: 400, text: "consumer inactive threshold exceeds system limit of {limit}" };
    /// `mirror transform: {err}`
    pub const MIRROR_INVALID_TRANSFORM_DESTINATION: Self = Self { err_code: 10154, code: 400, text: "mirror transform: {err}" };
    /// `stream transform source: {err}`
    pub const STREAM_TRANSFORM_INVALID_SOURCE: Self = Self { err_code: 10155, code: 400, text: "stream transform source: {err}" };
    /// `stream transform: {err}`
    pub const STREAM_TRANSFORM_INVALID_DESTINATION: Self = Self { err_code: 10156, code: 400, text: "stream transform: {err}" };
    /// `pedantic mode: {err}`
    pub const PEDANTIC: Self = Self { err_code: 10157, code: 400, text: "pedantic mode: {err}" };
    /// `duplicate message id is in process`
    pub const STREAM_DUPLICATE_MESSAGE_CONFLICT: Self = Self { err_code: 10158, code: 409, text: "duplicate message id is in process" };
    /// `Setting PriorityPolicy requires at least one PriorityGroup to be set`
    pub const CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP: Self = Self { err_code: 10159, code: 400, text: "Setting PriorityPolicy requires at least one PriorityGroup to be set" };
    /// `Provided priority group does not exist for this consumer`
    pub const CONSUMER_INVALID_PRIORITY_GROUP: Self = Self { err_code: 10160, code: 400, text: "Provided priority group does not exist for this consumer" };
    /// `Group name cannot be an empty string`
    pub const CONSUMER_EMPTY_GROUP_NAME: Self = Self { err_code: 10161, code: 400, text: "Group name cannot be an empty string" };
    /// `Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters`
    pub const CONSUMER_INVALID_GROUP_NAME: Self = Self { err_code: 10162, code: 400, text: "Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters" };
    /// `expected last sequence per subject temporarily unavailable`
    pub const STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_NOT_READY: Self = Self { err_code: 10163, code: 503, text: "expected last sequence per subject temporarily unavailable" };
    /// `wrong last sequence`
    pub const STREAM_WRONG_LAST_SEQUENCE_CONSTANT: Self = Self { err_code: 10164, code: 400, text: "wrong last sequence" };
    /// `invalid per-message TTL`
    pub const MESSAGE_TTL_INVALID: Self = Self { err_code: 10165, code: 400, text: "invalid per-message TTL" };
    /// `per-message TTL is disabled`
    pub const MESSAGE_TTL_DISABLED: Self = Self { err_code: 10166, code: 400, text: "per-message TTL is disabled" };
    /// `too many requests`
    pub const STREAM_TOO_MANY_REQUESTS: Self = Self { err_code: 10167, code: 429, text: "too many requests" };
    /// `message counters is disabled`
    pub const MESSAGE_INCR_DISABLED: Self = Self { err_code: 10168, code: 400, text: "message counters is disabled" };
    /// `message counter increment is missing`
    pub const MESSAGE_INCR_MISSING: Self = Self { err_code: 10169, code: 400, text: "message counter increment is missing" };
    /// `message counter has payload`
    pub const MESSAGE_INCR_PAYLOAD: Self = Self { err_code: 10170, code: 400, text: "message counter has payload" };
    /// `message counter increment is invalid`
    pub const MESSAGE_INCR_INVALID: Self = Self { err_code: 10171, code: 400, text: "message counter increment is invalid" };
    /// `message counter is broken`
    pub const MESSAGE_COUNTER_BROKEN: Self = Self { err_code: 10172, code: 400, text: "message counter is broken" };
    /// `stream mirrors can not also calculate counters`
    pub const MIRROR_WITH_COUNTERS: Self = Self { err_code: 10173, code: 400, text: "stream mirrors can not also calculate counters" };
    /// `atomic publish is disabled`
    pub const ATOMIC_PUBLISH_DISABLED: Self = Self { err_code: 10174, code: 400, text: "atomic publish is disabled" };
    /// `atomic publish sequence is missing`
    pub const ATOMIC_PUBLISH_MISSING_SEQ: Self = Self { err_code: 10175, code: 400, text: "atomic publish sequence is missing" };
    /// `atomic publish batch is incomplete`
    pub const ATOMIC_PUBLISH_INCOMPLETE_BATCH: Self = Self { err_code: 10176, code: 400, text: "atomic publish batch is incomplete" };
    /// `atomic publish unsupported header used: {header}`
    pub const ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH: Self = Self { err_code: 10177, code: 400, text: "atomic publish unsupported header used: {header}" };
    /// `priority groups can not be used with push consumers`
    pub const CONSUMER_PUSH_WITH_PRIORITY_GROUP: Self = Self { err_code: 10178, code: 400, text: "priority groups can not be used with push consumers" };
    /// `atomic publish batch ID is invalid`
    pub const ATOMIC_PUBLISH_INVALID_BATCH_ID: Self = Self { err_code: 10179, code: 400, text: "atomic publish batch ID is invalid" };
    /// `min last sequence`
    pub const STREAM_MIN_LAST_SEQ: Self = Self { err_code: 10180, code: 412, text: "min last sequence" };
    /// `consumer ack policy invalid`
    pub const CONSUMER_ACK_POLICY_INVALID: Self = Self { err_code: 10181, code: 400, text: "consumer ack policy invalid" };
    /// `consumer replay policy invalid`
    pub const CONSUMER_REPLAY_POLICY_INVALID: Self = Self { err_code: 10182, code: 400, text: "consumer replay policy invalid" };
    /// `consumer ack wait needs to be positive`
    pub const CONSUMER_ACK_WAIT_NEGATIVE: Self = Self { err_code: 10183, code: 400, text: "consumer ack wait needs to be positive" };
    /// `consumer backoff needs to be positive`
    pub const CONSUMER_BACK_OFF_NEGATIVE: Self = Self { err_code: 10184, code: 400, text: "consumer backoff needs to be positive" };
    /// `JetStream minimum api level required`
    pub const REQUIRED_API_LEVEL: Self = Self { err_code: 10185, code: 412, text: "JetStream minimum api level required" };
    /// `stream mirrors can not also schedule messages`
    pub const MIRROR_WITH_MSG_SCHEDULES: Self = Self { err_code: 10186, code: 400, text: "stream mirrors can not also schedule messages" };
    /// `stream source can not also schedule messages`
    pub const SOURCE_WITH_MSG_SCHEDULES: Self = Self { err_code: 10187, code: 400, text: "stream source can not also schedule messages" };
    /// `message schedules is disabled`
    pub const MESSAGE_SCHEDULES_DISABLED: Self = Self { err_code: 10188, code: 400, text: "message schedules is disabled" };
    /// `message schedules pattern is invalid`
    pub const MESSAGE_SCHEDULES_PATTERN_INVALID: Self = Self { err_code: 10189, code: 400, text: "message schedules pattern is invalid" };
    /// `message schedules target is invalid`
    pub const MESSAGE_SCHEDULES_TARGET_INVALID: Self = Self { err_code: 10190, code: 400, text: "message schedules target is invalid" };
    /// `message schedules invalid per-message TTL`
    pub const MESSAGE_SCHEDULES_TTL_INVALID: Self = Self { err_code: 10191, code: 400, text: "message schedules invalid per-message TTL" };
    /// `message schedules invalid rollup`
    pub const MESSAGE_SCHEDULES_ROLLUP_INVALID: Self = Self { err_code: 10192, code: 400, text: "message schedules invalid rollup" };
    /// `missing sequence for expected last sequence per subject`
    pub const STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID: Self = Self { err_code: 10193, code: 400, text: "missing sequence for expected last sequence per subject" };
    /// `stream is offline: {err}`
    pub const STREAM_OFFLINE_REASON: Self = Self { err_code: 10194, code: 500, text: "stream is offline: {err}" };
    /// `consumer is offline: {err}`
    pub const CONSUMER_OFFLINE_REASON: Self = Self { err_code: 10195, code: 500, text: "consumer is offline: {err}" };
    /// `consumer can not have priority groups when policy is none`
    pub const CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE: Self = Self { err_code: 10196, code: 400, text: "consumer can not have priority groups when policy is none" };
    /// `PinnedTTL cannot be set when PriorityPolicy is none`
    pub const CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE: Self = Self { err_code: 10197, code: 400, text: "PinnedTTL cannot be set when PriorityPolicy is none" };
    /// `stream mirrors can not also use atomic publishing`
    pub const MIRROR_WITH_ATOMIC_PUBLISH: Self = Self { err_code: 10198, code: 400, text: "stream mirrors can not also use atomic publishing" };
    /// `atomic publish batch is too large: {size}`
    pub const ATOMIC_PUBLISH_TOO_LARGE_BATCH: Self = Self { err_code: 10199, code: 400, text: "atomic publish batch is too large: {size}" };
    /// `atomic publish batch commit is invalid`
    pub const ATOMIC_PUBLISH_INVALID_BATCH_COMMIT: Self = Self { err_code: 10200, code: 400, text: "atomic publish batch commit is invalid" };
    /// `atomic publish batch contains duplicate message id`
    pub const ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE: Self = Self { err_code: 10201, code: 400, text: "atomic publish batch contains duplicate message id" };
    /// `cluster member change is in progress`
    pub const CLUSTER_SERVER_MEMBER_CHANGE_INFLIGHT: Self = Self { err_code: 10202, code: 400, text: "cluster member change is in progress" };
    /// `message schedules source is invalid`
    pub const MESSAGE_SCHEDULES_SOURCE_INVALID: Self = Self { err_code: 10203, code: 400, text: "message schedules source is invalid" };
    /// `invalid reset: {err}`
    pub const CONSUMER_INVALID_RESET: Self = Self { err_code: 10204, code: 400, text: "invalid reset: {err}" };
    /// `batch publish is disabled`
    pub const BATCH_PUBLISH_DISABLED: Self = Self { err_code: 10205, code: 400, text: "batch publish is disabled" };
    /// `batch publish pattern is invalid`
    pub const BATCH_PUBLISH_INVALID_PATTERN: Self = Self { err_code: 10206, code: 400, text: "batch publish pattern is invalid" };
    /// `batch publish ID is invalid`
    pub const BATCH_PUBLISH_INVALID_BATCH_ID: Self = Self { err_code: 10207, code: 400, text: "batch publish ID is invalid" };
    /// `batch publish ID unknown`
    pub const BATCH_PUBLISH_UNKNOWN_BATCH_ID: Self = Self { err_code: 10208, code: 400, text: "batch publish ID unknown" };
    /// `stream mirrors can not also use batch publishing`
    pub const MIRROR_WITH_BATCH_PUBLISH: Self = Self { err_code: 10209, code: 400, text: "stream mirrors can not also use batch publishing" };
    /// `atomic publish too many inflight`
    pub const ATOMIC_PUBLISH_TOO_MANY_INFLIGHT: Self = Self { err_code: 10210, code: 429, text: "atomic publish too many inflight" };
    /// `batch publish too many inflight`
    pub const BATCH_PUBLISH_TOO_MANY_INFLIGHT: Self = Self { err_code: 10211, code: 429, text: "batch publish too many inflight" };
    /// `message schedules invalid scheduler`
    pub const MESSAGE_SCHEDULES_SCHEDULER_INVALID: Self = Self { err_code: 10212, code: 400, text: "message schedules invalid scheduler" };
    /// `stream mirror consumer config is invalid`
    pub const MIRROR_DURABLE_CONSUMER_CFG_INVALID: Self = Self { err_code: 10213, code: 400, text: "stream mirror consumer config is invalid" };
    /// `stream mirror consumer requires flow control ack policy`
    pub const MIRROR_CONSUMER_REQUIRES_ACK_FC: Self = Self { err_code: 10214, code: 400, text: "stream mirror consumer requires flow control ack policy" };
    /// `stream source consumer config is invalid`
    pub const SOURCE_DURABLE_CONSUMER_CFG_INVALID: Self = Self { err_code: 10215, code: 400, text: "stream source consumer config is invalid" };
    /// `duplicate stream source consumer detected`
    pub const SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED: Self = Self { err_code: 10216, code: 400, text: "duplicate stream source consumer detected" };
    /// `stream source consumer requires flow control ack policy`
    pub const SOURCE_CONSUMER_REQUIRES_ACK_FC: Self = Self { err_code: 10217, code: 400, text: "stream source consumer requires flow control ack policy" };
    /// `flow control ack policy requires a push based consumer`
    pub const CONSUMER_ACK_FC_REQUIRES_PUSH: Self = Self { err_code: 10218, code: 400, text: "flow control ack policy requires a push based consumer" };
    /// `flow control ack policy requires flow control`
    pub const CONSUMER_ACK_FC_REQUIRES_FC: Self = Self { err_code: 10219, code: 400, text: "flow control ack policy requires flow control" };
    /// `flow control ack policy requires max ack pending`
    pub const CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING: Self = Self { err_code: 10220, code: 400, text: "flow control ack policy requires max ack pending" };
    /// `flow control ack policy requires unset ack wait`
    pub const CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT: Self = Self { err_code: 10221, code: 400, text: "flow control ack policy requires unset ack wait" };
    /// `flow control ack policy requires unset max deliver`
    pub const CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER: Self = Self { err_code: 10222, code: 400, text: "flow control ack policy requires unset max deliver" };
    /// `message schedules time zone is invalid`
    pub const MESSAGE_SCHEDULES_TIME_ZONE_INVALID: Self = Self { err_code: 10223, code: 400, text: "message schedules time zone is invalid" };
    /// `JetStream system rescue not applied: {err}`
    pub const CLUSTER_RESCUE: Self = Self { err_code: 10224, code: 400, text: "JetStream system rescue not applied: {err}" };
    /// `consumer's stream identity does not match: {msg}`
    pub const CONSUMER_STREAM_IDENTITY_MISMATCH: Self = Self { err_code: 10225, code: 400, text: "consumer's stream identity does not match: {msg}" };
    /// `stream reconfiguration already in progress`
    pub const STREAM_RECONFIGURE_IN_PROGRESS: Self = Self { err_code: 10226, code: 400, text: "stream reconfiguration already in progress" };
    /// `message stream source header is not allowed`
    pub const MESSAGE_SOURCE_HDR_NOT_ALLOWED: Self = Self { err_code: 10227, code: 400, text: "message stream source header is not allowed" };
    /// `stream source consumer stalled on flow control`
    pub const SOURCE_CONSUMER_FLOW_CONTROL_STALLED: Self = Self { err_code: 10228, code: 500, text: "stream source consumer stalled on flow control" };
    /// `consumer dead letter subject {err}`
    pub const CONSUMER_DEAD_LETTER_SUBJECT_INVALID: Self = Self { err_code: 20001, code: 400, text: "consumer dead letter subject {err}" };
    /// `consumer dead letter subject forms a cycle`
    pub const CONSUMER_DEAD_LETTER_CYCLE: Self = Self { err_code: 20002, code: 400, text: "consumer dead letter subject forms a cycle" };
    /// `consumer dead letter subject requires explicit ack policy`
    pub const CONSUMER_DEAD_LETTER_REQUIRES_EXPLICIT_ACK: Self = Self { err_code: 20003, code: 400, text: "consumer dead letter subject requires explicit ack policy" };
    /// `consumer max ack pending per subject {err}`
    pub const CONSUMER_ACK_PENDING_PER_SUBJECT_INVALID: Self = Self { err_code: 20004, code: 400, text: "consumer max ack pending per subject {err}" };
    /// `{feature} is not supported by all servers that may hold the stream`
    pub const FEATURE_NOT_SUPPORTED: Self = Self { err_code: 20005, code: 412, text: "{feature} is not supported by all servers that may hold the stream" };
}

/// All errors by number.
pub static ALL: [ErrorCode; 232] = [
    ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
    ErrorCode::BAD_REQUEST,
    ErrorCode::CLUSTER_INCOMPLETE,
    ErrorCode::CLUSTER_NO_PEERS,
    ErrorCode::CLUSTER_NOT_ACTIVE,
    ErrorCode::CLUSTER_NOT_ASSIGNED,
    ErrorCode::CLUSTER_NOT_AVAIL,
    ErrorCode::CLUSTER_NOT_LEADER,
    ErrorCode::CLUSTER_REQUIRED,
    ErrorCode::CLUSTER_TAGS,
    ErrorCode::CONSUMER_CREATE,
    ErrorCode::CONSUMER_NAME_EXIST,
    ErrorCode::CONSUMER_NOT_FOUND,
    ErrorCode::SNAPSHOT_DELIVER_SUBJECT_INVALID,
    ErrorCode::CONSUMER_DURABLE_NAME_NOT_IN_SUBJECT,
    ErrorCode::CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT,
    ErrorCode::CONSUMER_DURABLE_NAME_NOT_SET,
    ErrorCode::CONSUMER_EPHEMERAL_WITH_DURABLE_IN_SUBJECT,
    ErrorCode::CONSUMER_EPHEMERAL_WITH_DURABLE_NAME,
    ErrorCode::STREAM_EXTERNAL_API_OVERLAP,
    ErrorCode::STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS,
    ErrorCode::INSUFFICIENT_RESOURCES,
    ErrorCode::STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ,
    ErrorCode::INVALID_JSON,
    ErrorCode::MAXIMUM_CONSUMERS_LIMIT,
    ErrorCode::MAXIMUM_STREAMS_LIMIT,
    ErrorCode::MEMORY_RESOURCES_EXCEEDED,
    ErrorCode::MIRROR_CONSUMER_SETUP_FAILED,
    ErrorCode::MIRROR_MAX_MESSAGE_SIZE_TOO_BIG,
    ErrorCode::MIRROR_WITH_SOURCES,
    ErrorCode::MIRROR_WITH_START_SEQ_AND_TIME,
    ErrorCode::MIRROR_WITH_SUBJECT_FILTERS,
    ErrorCode::MIRROR_WITH_SUBJECTS,
    ErrorCode::NO_ACCOUNT,
    ErrorCode::CLUSTER_UN_SUPPORT_FEATURE,
    ErrorCode::NO_MESSAGE_FOUND,
    ErrorCode::NOT_EMPTY_REQUEST,
    ErrorCode::NOT_ENABLED_FOR_ACCOUNT,
    ErrorCode::CLUSTER_PEER_NOT_MEMBER,
    ErrorCode::RAFT_GENERAL,
    ErrorCode::RESTORE_SUBSCRIBE_FAILED,
    ErrorCode::SEQUENCE_NOT_FOUND,
    ErrorCode::CLUSTER_SERVER_NOT_MEMBER,
    ErrorCode::SOURCE_CONSUMER_SETUP_FAILED,
    ErrorCode::SOURCE_MAX_MESSAGE_SIZE_TOO_BIG,
    ErrorCode::STORAGE_RESOURCES_EXCEEDED,
    ErrorCode::STREAM_ASSIGNMENT,
    ErrorCode::STREAM_CREATE,
    ErrorCode::STREAM_DELETE,
    ErrorCode::STREAM_GENERAL,
    ErrorCode::STREAM_INVALID_CONFIG,
    ErrorCode::STREAM_LIMITS,
    ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM,
    ErrorCode::STREAM_MIRROR_NOT_UPDATABLE,
    ErrorCode::STREAM_MISMATCH,
    ErrorCode::STREAM_MSG_DELETE_FAILED,
    ErrorCode::STREAM_NAME_EXIST,
    ErrorCode::STREAM_NOT_FOUND,
    ErrorCode::STREAM_NOT_MATCH,
    ErrorCode::STREAM_REPLICAS_NOT_UPDATABLE,
    ErrorCode::STREAM_RESTORE,
    ErrorCode::STREAM_SEQUENCE_NOT_MATCH,
    ErrorCode::STREAM_SNAPSHOT,
    ErrorCode::STREAM_SUBJECT_OVERLAP,
    ErrorCode::STREAM_TEMPLATE_CREATE,
    ErrorCode::STREAM_TEMPLATE_DELETE,
    ErrorCode::STREAM_TEMPLATE_NOT_FOUND,
    ErrorCode::STREAM_UPDATE,
    ErrorCode::STREAM_WRONG_LAST_MSG_ID,
    ErrorCode::STREAM_WRONG_LAST_SEQUENCE,
    ErrorCode::TEMP_STORAGE_FAILED,
    ErrorCode::TEMPLATE_NAME_NOT_MATCH_SUBJECT,
    ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED,
    ErrorCode::PEER_REMAP,
    ErrorCode::NOT_ENABLED,
    ErrorCode::STREAM_STORE_FAILED,
    ErrorCode::CONSUMER_CONFIG_REQUIRED,
    ErrorCode::CONSUMER_DELIVER_TO_WILDCARDS,
    ErrorCode::CONSUMER_PUSH_MAX_WAITING,
    ErrorCode::CONSUMER_DELIVER_CYCLE,
    ErrorCode::CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED,
    ErrorCode::CONSUMER_SMALL_HEARTBEAT,
    ErrorCode::CONSUMER_PULL_REQUIRES_ACK,
    ErrorCode::CONSUMER_PULL_NOT_DURABLE,
    ErrorCode::CONSUMER_PULL_WITH_RATE_LIMIT,
    ErrorCode::CONSUMER_MAX_WAITING_NEGATIVE,
    ErrorCode::CONSUMER_HB_REQUIRES_PUSH,
    ErrorCode::CONSUMER_FC_REQUIRES_PUSH,
    ErrorCode::CONSUMER_DIRECT_REQUIRES_PUSH,
    ErrorCode::CONSUMER_DIRECT_REQUIRES_EPHEMERAL,
    ErrorCode::CONSUMER_ON_MAPPED,
    ErrorCode::CONSUMER_FILTER_NOT_SUBSET,
    ErrorCode::CONSUMER_INVALID_POLICY,
    ErrorCode::CONSUMER_INVALID_SAMPLING,
    ErrorCode::STREAM_INVALID,
    ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM,
    ErrorCode::CONSUMER_WQ_REQUIRES_EXPLICIT_ACK,
    ErrorCode::CONSUMER_WQ_MULTIPLE_UNFILTERED,
    ErrorCode::CONSUMER_WQ_CONSUMER_NOT_UNIQUE,
    ErrorCode::CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL,
    ErrorCode::CONSUMER_NAME_TOO_LONG,
    ErrorCode::CONSUMER_BAD_DURABLE_NAME,
    ErrorCode::CONSUMER_STORE_FAILED,
    ErrorCode::CONSUMER_EXISTING_ACTIVE,
    ErrorCode::CONSUMER_REPLACEMENT_WITH_DIFFERENT_NAME,
    ErrorCode::CONSUMER_DESCRIPTION_TOO_LONG,
    ErrorCode::CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS,
    ErrorCode::STREAM_SEALED,
    ErrorCode::STREAM_PURGE_FAILED,
    ErrorCode::STREAM_ROLLUP_FAILED,
    ErrorCode::CONSUMER_INVALID_DELIVER_SUBJECT,
    ErrorCode::STREAM_MAX_BYTES_REQUIRED,
    ErrorCode::CONSUMER_MAX_REQUEST_BATCH_NEGATIVE,
    ErrorCode::CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL,
    ErrorCode::CONSUMER_MAX_DELIVER_BACKOFF,
    ErrorCode::STREAM_INFO_MAX_SUBJECTS,
    ErrorCode::STREAM_OFFLINE,
    ErrorCode::CONSUMER_OFFLINE,
    ErrorCode::NO_LIMITS,
    ErrorCode::CONSUMER_MAX_PENDING_ACK_EXCESS,
    ErrorCode::STREAM_MAX_STREAM_BYTES_EXCEEDED,
    ErrorCode::STREAM_MOVE_AND_SCALE,
    ErrorCode::STREAM_MOVE_IN_PROGRESS,
    ErrorCode::CONSUMER_MAX_REQUEST_BATCH_EXCEEDED,
    ErrorCode::CONSUMER_REPLICAS_EXCEEDS_STREAM,
    ErrorCode::CONSUMER_NAME_CONTAINS_PATH_SEPARATORS,
    ErrorCode::STREAM_NAME_CONTAINS_PATH_SEPARATORS,
    ErrorCode::STREAM_RECONFIGURE_NOT_IN_PROGRESS,
    ErrorCode::STREAM_NAME_EXIST_RESTORE_FAILED,
    ErrorCode::CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH,
    ErrorCode::CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH,
    ErrorCode::REPLICAS_COUNT_CANNOT_BE_NEGATIVE,
    ErrorCode::CONSUMER_REPLICAS_SHOULD_MATCH_STREAM,
    ErrorCode::CONSUMER_METADATA_LENGTH,
    ErrorCode::CONSUMER_DUPLICATE_FILTER_SUBJECTS,
    ErrorCode::CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED,
    ErrorCode::CONSUMER_OVERLAPPING_SUBJECT_FILTERS,
    ErrorCode::CONSUMER_EMPTY_FILTER,
    ErrorCode::SOURCE_DUPLICATE_DETECTED,
    ErrorCode::SOURCE_INVALID_STREAM_NAME,
    ErrorCode::MIRROR_INVALID_STREAM_NAME,
    ErrorCode::MIRROR_WITH_FIRST_SEQ,
    ErrorCode::SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED,
    ErrorCode::SOURCE_INVALID_SUBJECT_FILTER,
    ErrorCode::SOURCE_INVALID_TRANSFORM_DESTINATION,
    ErrorCode::SOURCE_OVERLAPPING_SUBJECT_FILTERS,
    ErrorCode::CONSUMER_ALREADY_EXISTS,
    ErrorCode::CONSUMER_DOES_NOT_EXIST,
    ErrorCode::MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED,
    ErrorCode::MIRROR_INVALID_SUBJECT_FILTER,
    ErrorCode::MIRROR_OVERLAPPING_SUBJECT_FILTERS,
    ErrorCode::CONSUMER_INACTIVE_THRESHOLD_EXCESS,
    ErrorCode::MIRROR_INVALID_TRANSFORM_DESTINATION,
    ErrorCode::STREAM_TRANSFORM_INVALID_SOURCE,
    ErrorCode::STREAM_TRANSFORM_INVALID_DESTINATION,
    ErrorCode::PEDANTIC,
    ErrorCode::STREAM_DUPLICATE_MESSAGE_CONFLICT,
    ErrorCode::CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP,
    ErrorCode::CONSUMER_INVALID_PRIORITY_GROUP,
    ErrorCode::CONSUMER_EMPTY_GROUP_NAME,
    ErrorCode::CONSUMER_INVALID_GROUP_NAME,
    ErrorCode::STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_NOT_READY,
    ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT,
    ErrorCode::MESSAGE_TTL_INVALID,
    ErrorCode::MESSAGE_TTL_DISABLED,
    ErrorCode::STREAM_TOO_MANY_REQUESTS,
    ErrorCode::MESSAGE_INCR_DISABLED,
    ErrorCode::MESSAGE_INCR_MISSING,
    ErrorCode::MESSAGE_INCR_PAYLOAD,
    ErrorCode::MESSAGE_INCR_INVALID,
    ErrorCode::MESSAGE_COUNTER_BROKEN,
    ErrorCode::MIRROR_WITH_COUNTERS,
    ErrorCode::ATOMIC_PUBLISH_DISABLED,
    ErrorCode::ATOMIC_PUBLISH_MISSING_SEQ,
    ErrorCode::ATOMIC_PUBLISH_INCOMPLETE_BATCH,
    ErrorCode::ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH,
    ErrorCode::CONSUMER_PUSH_WITH_PRIORITY_GROUP,
    ErrorCode::ATOMIC_PUBLISH_INVALID_BATCH_ID,
    ErrorCode::STREAM_MIN_LAST_SEQ,
    ErrorCode::CONSUMER_ACK_POLICY_INVALID,
    ErrorCode::CONSUMER_REPLAY_POLICY_INVALID,
    ErrorCode::CONSUMER_ACK_WAIT_NEGATIVE,
    ErrorCode::CONSUMER_BACK_OFF_NEGATIVE,
    ErrorCode::REQUIRED_API_LEVEL,
    ErrorCode::MIRROR_WITH_MSG_SCHEDULES,
    ErrorCode::SOURCE_WITH_MSG_SCHEDULES,
    ErrorCode::MESSAGE_SCHEDULES_DISABLED,
    ErrorCode::MESSAGE_SCHEDULES_PATTERN_INVALID,
    ErrorCode::MESSAGE_SCHEDULES_TARGET_INVALID,
    ErrorCode::MESSAGE_SCHEDULES_TTL_INVALID,
    ErrorCode::MESSAGE_SCHEDULES_ROLLUP_INVALID,
    ErrorCode::STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID,
    ErrorCode::STREAM_OFFLINE_REASON,
    ErrorCode::CONSUMER_OFFLINE_REASON,
    ErrorCode::CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE,
    ErrorCode::CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE,
    ErrorCode::MIRROR_WITH_ATOMIC_PUBLISH,
    ErrorCode::ATOMIC_PUBLISH_TOO_LARGE_BATCH,
    ErrorCode::ATOMIC_PUBLISH_INVALID_BATCH_COMMIT,
    ErrorCode::ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE,
    ErrorCode::CLUSTER_SERVER_MEMBER_CHANGE_INFLIGHT,
    ErrorCode::MESSAGE_SCHEDULES_SOURCE_INVALID,
    ErrorCode::CONSUMER_INVALID_RESET,
    ErrorCode::BATCH_PUBLISH_DISABLED,
    ErrorCode::BATCH_PUBLISH_INVALID_PATTERN,
    ErrorCode::BATCH_PUBLISH_INVALID_BATCH_ID,
    ErrorCode::BATCH_PUBLISH_UNKNOWN_BATCH_ID,
    ErrorCode::MIRROR_WITH_BATCH_PUBLISH,
    ErrorCode::ATOMIC_PUBLISH_TOO_MANY_INFLIGHT,
    ErrorCode::BATCH_PUBLISH_TOO_MANY_INFLIGHT,
    ErrorCode::MESSAGE_SCHEDULES_SCHEDULER_INVALID,
    ErrorCode::MIRROR_DURABLE_CONSUMER_CFG_INVALID,
    ErrorCode::MIRROR_CONSUMER_REQUIRES_ACK_FC,
    ErrorCode::SOURCE_DURABLE_CONSUMER_CFG_INVALID,
    ErrorCode::SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED,
    ErrorCode::SOURCE_CONSUMER_REQUIRES_ACK_FC,
    ErrorCode::CONSUMER_ACK_FC_REQUIRES_PUSH,
    ErrorCode::CONSUMER_ACK_FC_REQUIRES_FC,
    ErrorCode::CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING,
    ErrorCode::CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT,
    ErrorCode::CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER,
    ErrorCode::MESSAGE_SCHEDULES_TIME_ZONE_INVALID,
    ErrorCode::CLUSTER_RESCUE,
    ErrorCode::CONSUMER_STREAM_IDENTITY_MISMATCH,
    ErrorCode::STREAM_RECONFIGURE_IN_PROGRESS,
    ErrorCode::MESSAGE_SOURCE_HDR_NOT_ALLOWED,
    ErrorCode::SOURCE_CONSUMER_FLOW_CONTROL_STALLED,
    ErrorCode::CONSUMER_DEAD_LETTER_SUBJECT_INVALID,
    ErrorCode::CONSUMER_DEAD_LETTER_CYCLE,
    ErrorCode::CONSUMER_DEAD_LETTER_REQUIRES_EXPLICIT_ACK,
    ErrorCode::CONSUMER_ACK_PENDING_PER_SUBJECT_INVALID,
    ErrorCode::FEATURE_NOT_SUPPORTED,
];
