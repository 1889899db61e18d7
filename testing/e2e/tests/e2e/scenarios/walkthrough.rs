//! The walkthrough of the documentation: every command in it prints what stands below it.

use anyhow::{Result, ensure};

use super::World;
use crate::cluster::NatsCluster;
use crate::document::Document;

const DOCUMENT: &str = "docs/walkthrough.md";
const NAMESPACE: &str = "e2e-walkthrough";

pub(super) fn as_documented(world: &World) -> Result<()> {
    world.kubernetes.create_namespace(NAMESPACE)?;
    let cluster = NatsCluster {
        kubernetes: &world.kubernetes,
        namespace: NAMESPACE,
        name: "store",
        user: "app".to_owned(),
        password: "change-me-please".to_owned(),
    };
    Document::read(DOCUMENT)?.play(&cluster)?;
    let ours = "natsclusters,natsautoscalers,streams,consumers,keyvalues,objectstores,accounts,persistentvolumeclaims";
    let left = cluster.kubectl(&["get", ours, "--output=name"])?;
    ensure!(left.is_empty(), "the walkthrough leaves behind {left}");
    Ok(())
}
