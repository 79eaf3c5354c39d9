import type { Db } from '../../db/database.ts'
import * as deployments from '../../db/deploys/deployments.ts'
import type { Release } from './release.ts'

/** Records a step of the deployment that brings this release; a release of no deployment records nothing. */
export async function recordDeployment(
  db: Db,
  { deploymentId }: Pick<Release, 'deploymentId'>,
  step: deployments.DeploymentStep,
): Promise<void> {
  if (deploymentId) await deployments.recordDeploymentStep(db, deploymentId, step)
}
