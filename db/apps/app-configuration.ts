import { type Plans, planOf } from '../../policy/accounts/plans.ts'
import { assertKeepsAddress } from '../../policy/apps/address-rules.ts'
import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import { cpusFor, diskGrowth } from '../../policy/apps/sizes.ts'
import { CodedError } from '../../policy/errors.ts'
import { hasRoom } from '../../policy/hosts/placement.ts'
import { assertDisk, assertMemory } from '../accounts/account-reservations.ts'
import { type Db, transaction } from '../database.ts'
import { lockCapacities } from '../hosts/hosts.ts'
import type { AppRow } from './apps.ts'

/** The columns of an application that its configuration file decides. */
export function configColumns(config: AppConfigFile) {
  return {
    name: config.displayName,
    description: config.description,
    language: config.language,
    version: config.version,
    runtime_version: config.runtimeVersion,
    ram_mb: config.memoryMb,
    cpu: cpusFor(config.memoryMb),
    main: config.main,
    start_command: config.start,
    runtime_key: config.runtime,
    autorestart: config.autorestart,
    health_path: config.health ?? null, // a configuration of before has none
  }
}

/** The configuration file that describes an application as it is. */
export function configOf(app: AppRow): AppConfigFile {
  return {
    displayName: app.name,
    description: app.description,
    main: app.main,
    memoryMb: app.ram_mb,
    version: app.version,
    subdomain: app.subdomain,
    start: app.start_command,
    autorestart: app.autorestart,
    runtime: app.runtime_key,
    language: app.language,
    health: app.health_path,
    runtimeVersion: app.runtime_version,
  }
}

type ConfigColumns = ReturnType<typeof configColumns>

export interface Adoption {
  deploymentId: string
  plans: Plans
  diskMbPer256Mb: number
}

/**
 * Gives an application the configuration of a deployment, and stores the replaced one for `revertConfig`. Succeeds without a change
 * when it was adopted already, or the deployment has none. Throws as `assertAdoptable`.
 */
export async function adoptConfig(db: Db, adoption: Adoption): Promise<void> {
  await transaction(db, async trx => {
    const adoptable = await findAdoptable(trx, adoption)
    if (!adoptable) return
    const { config, app } = adoptable
    const before = Object.fromEntries(
      Object.keys(configColumns(config)).map(name => [name, app[name as keyof ConfigColumns]]),
    )
    await trx('deployments')
      .where({ id: adoption.deploymentId })
      .update({ config_before: JSON.stringify(before) })
    await trx('apps').where({ id: app.id }).update(configColumns(config))
  })
}

/**
 * Refuses before a build what `adoptConfig` would refuse after it, as things are now: INSUFFICIENT_MEMORY (plan),
 * CLUSTER_SELECTION_FAILED (host), and what `assertKeepsAddress` throws.
 */
export async function assertAdoptable(db: Db, adoption: Adoption): Promise<void> {
  await transaction(db, trx => findAdoptable(trx, adoption))
}

/** The configuration that a deployment brings, and the application that it is for, both locked; null when there is nothing to adopt. Throws as `assertAdoptable`. */
async function findAdoptable(
  trx: Db,
  { deploymentId, plans, diskMbPer256Mb }: Adoption,
): Promise<{ config: AppConfigFile; app: AppRow } | null> {
  const deployment = await trx('deployments').where({ id: deploymentId }).forUpdate().first()
  const config: AppConfigFile | null = deployment?.config ?? null
  if (!config || deployment.config_before) return null
  const app: AppRow | undefined = await trx('apps').where({ id: deployment.app_id }).first()
  if (!app) return null
  // A restore brings back an earlier configuration, which was checked when it was adopted.
  if (deployment.trigger !== 'restore') assertKeepsAddress(config, app.subdomain)
  if (config.memoryMb > app.ram_mb) await reserveMore(trx, app, config.memoryMb, plans, diskMbPer256Mb)
  return { config, app }
}

/** Puts back what `adoptConfig` replaced; succeeds when nothing was adopted. */
export async function revertConfig(db: Db, deploymentId: string): Promise<void> {
  await transaction(db, async trx => {
    const deployment = await trx('deployments').where({ id: deploymentId }).forUpdate().first()
    if (!deployment?.config_before) return
    await trx('apps').where({ id: deployment.app_id }).update(deployment.config_before)
    await trx('deployments').where({ id: deploymentId }).update({ config_before: null })
  })
}

async function reserveMore(
  trx: Db,
  app: AppRow,
  memoryMb: number,
  plans: Plans,
  diskMbPer256Mb: number,
): Promise<void> {
  const user = await trx('users').where({ id: app.owner_id }).forUpdate().first()
  const more = memoryMb - app.ram_mb
  const { plan } = planOf(plans, user, new Date())
  await assertMemory(trx, { ownerId: app.owner_id, planMb: plan.memoryMb, moreMb: more })
  const { disk_for_mb: diskForMb } = await trx('apps').where({ id: app.id }).first('disk_for_mb')
  const { moreMb, diskMb } = diskGrowth(diskForMb, memoryMb, diskMbPer256Mb)
  await assertDisk(trx, { ownerId: app.owner_id, planMb: plan.memoryMb, moreMb })
  const host = (await lockCapacities(trx, diskMbPer256Mb)).find(candidate => candidate.id === app.host_id)
  if (!host || !hasRoom(host, { memoryMb: more, diskMb })) {
    throw new CodedError('CLUSTER_SELECTION_FAILED', `The host ${app.host_id} has no room for ${more} MB more.`)
  }
}
