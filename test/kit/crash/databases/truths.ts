import { execFileSync } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { connect } from 'node:net'
import type { ExecutionContext } from 'ava'
import { labels } from '../../../../activities/containers/port.ts'
import { engineOf } from '../../../../activities/databases/engines/select.ts'
import { namesOf } from '../../../../activities/firewall/iptables.ts'
import { databasePasswordKey } from '../../../../db/databases/authorities.ts'
import type { DatabaseRow } from '../../../../db/databases/databases.ts'
import { KiB, MiB } from '../../../../lib/bytes.ts'
import { diskMbFor } from '../../../../policy/apps/sizes.ts'
import { databasePassword } from '../../../../policy/databases/passwords.ts'
import type { Answer } from '../../actors/api.ts'
import { bareDocker, bareEngine } from '../../hosts/host-remains.ts'
import type { Kept, Kind, Rental } from './rental.ts'
import type { DatabaseStage } from './stage.ts'

/** What was done to it, with the operation that was asked for, and its answer. */
export interface Ended extends Kept {
  kind: Kind
  answer: Answer
  /** The name of its host. */
  host: string
  /** Writes that were acknowledged when the operation was asked for, and when it was answered. */
  begun: number
  after: number
  /** What the case is called. */
  name: string
  /** Whether the answer may be 5xx although the operation has succeeded: our own Postgres was away. */
  isDoubtful: boolean
}

/** Everything that must hold after an operation that something died in. */
export async function assertTruths(t: ExecutionContext, rental: Rental, ended: Ended): Promise<void> {
  const state = await assertOutcome(t, rental, ended)
  // A restore that its caller did not wait for takes what was written until it ended.
  const after = ended.answer.status === 200 ? ended.after : rental.acknowledged.length
  const exists = (await rental.row()) !== undefined
  if (ended.kind === 'create') t.is(exists, state === 'success', `${ended.name}: a row exists only after a success`)
  if (ended.kind === 'delete')
    t.is(exists, state !== 'success', `${ended.name}: the row is deleted only after a success`)
  await assertAlone(rental, ended)
  if (!exists) return assertClosed(t, rental, ended)
  const row = (await rental.row())!
  t.is(row.reserved_mb, row.ram_mb, `${ended.name}: memory that nobody uses is released`)
  const shouldRun = row.desired_state === 'running'
  if (ended.kind === 'stop' && state === 'success') t.false(shouldRun, ended.name)
  else if (!(ended.kind === 'start' && state !== 'success')) t.true(shouldRun, `${ended.name}: it is to run`)
  if (!shouldRun) return
  await assertSize(t, row, rental, ended)
  await assertOnePassword(t, rental, ended)
  await assertCertificate(t, rental, ended)
  await assertWrites(t, rental, { ...ended, after }, state)
}

/** The operation has one end, and its caller got no other. */
async function assertOutcome(
  t: ExecutionContext,
  rental: Rental,
  { kind, answer, name, isDoubtful }: Ended,
): Promise<string> {
  const { platform } = rental.stage
  const final = async () => {
    const operation = await rental.operation(kind)
    if (!operation) return 'refused'
    return ['accepting', 'queued', 'running'].includes(operation.state) ? null : operation.state
  }
  const state = await platform.until<string>(() => final().catch(() => null), 300, `${name}: an end`)
  const answered = `${name}: ${state} was answered ${answer.status} ${answer.text.slice(0, 300)}`
  if (answer.status === 200) t.is(state, 'success', answered)
  else if (answer.status !== 202 && !isDoubtful && !isInDoubt(kind, answer)) t.not(state, 'success', answered)
  return state
}

/** A start goes on although its caller had to be answered: that is what the answer says. */
const isInDoubt = (kind: Kind, { text }: Answer): boolean => kind === 'start' && text.includes('DATABASE_UNAVAILABLE')

/** On its host there is what its row says, and nothing else; within the time of the rounds that look. */
async function assertAlone(rental: Rental, { host, name }: Ended): Promise<void> {
  const { stage } = rental
  const { platform } = stage
  let seen = ''
  const isAlone = async () => {
    const row = await rental.row()
    const own = row && `${row.id}-${row.generation}`
    // The volume before a restore stays for a day, with the container that served it.
    const kept = [own, row?.retired_generation && `${row.id}-${row.retired_generation}`]
    const remains = await platform.remains(host)
    const containers = await bareEngine.list({ [labels.host]: platform.hostId(host) })
    const running = containers.filter(one => one.running)
    const shouldRun = row?.desired_state === 'running'
    const admitted = admissionsOf(platform.hostId(host))
    const slots = await platform.db('blob_leases').where({ subject: `snapshot/${platform.hostId(host)}` })
    const busy = await platform
      .db('operations')
      .where({ owner_id: rental.user.id })
      .whereIn('state', ['accepting', 'queued', 'running'])
    const facts = {
      busy: busy.length === 0,
      containers: remains.containers.every(one => kept.some(volume => one === `berth-db-${volume}`)),
      serves: running.length === (shouldRun ? 1 : 0),
      recorded:
        !row || (shouldRun ? row.status === 'running' && row.container_id === running[0]?.id : row.status === 'exited'),
      volumes: remains.volumes.every(one => kept.includes(one)) && (!own || remains.volumes.includes(own)),
      networks: remains.networks.length === (row ? 1 : 0),
      mounts: remains.mounts.every(mount => kept.some(volume => volume && mount.includes(volume))),
      rules: admitted.join() === running.map(({ address }) => `${address}:${row?.port}`).join(),
      slots: slots.length === 0,
    }
    const wrong = Object.entries(facts).filter(([, holds]) => !holds)
    const { status, desired_state: desired, restarts, restart_at: restartAt } = row ?? {}
    seen = JSON.stringify({ wrong, remains, admitted, own, kept, status, desired, restarts, restartAt })
    return Object.values(facts).every(Boolean)
  }
  await platform
    .until(() => isAlone().catch(() => false), 240, `${name}: what there is, is what the row says`)
    .catch(async error => {
      const starts = await startsOf(stage, rental.user.id).catch(String)
      const lines = await lastLines(platform.hostId(host))
      throw new Error(`${error.message}: ${seen}\nthe watch: ${JSON.stringify(starts)}\n${lines}`)
    })
}

/** How the last operations of the watch of a host have ended, newest first, for a failure. */
function startsOf({ platform }: Pick<DatabaseStage, 'platform'>, ownerId: string): Promise<Record<string, unknown>[]> {
  return platform
    .db('operations')
    .where({ owner_id: ownerId, actor: 'host-watch' })
    .orderBy('seq', 'desc')
    .limit(5)
    .select('kind', 'state', 'code', 'message')
}

/** What the engines of a host have printed last, for a failure. */
async function lastLines(hostId: string): Promise<string> {
  const containers = await bareEngine.list({ [labels.host]: hostId })
  const lines = containers.map(async ({ name, status }) => {
    const printed = await bareEngine.logs(name, 4 * KiB).catch(error => String(error))
    return `${name}, ${status}:\n${printed}`
  })
  return (await Promise.all(lines)).join('\n')
}

/** Addresses and ports that a host has opened. */
function admissionsOf(hostId: string): string[] {
  const chain = `${namesOf(hostId).name}-ADMITTED`
  let rules = ''
  try {
    rules = execFileSync('iptables', ['-w', '-S', chain], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {} // no chain admits nothing
  return [...rules.matchAll(/ -d ([\d.]+)\/32 .*--dport (\d+)/g)].map(([, address, port]) => `${address}:${port}`)
}

async function assertClosed(t: ExecutionContext, { remote }: Rental, { name }: Ended): Promise<void> {
  if (!remote) return
  const isOpen = await new Promise<boolean>(resolve => {
    const socket = connect(remote.port, remote.host, () => resolve(true)).on('error', () => resolve(false))
    socket.on('close', () => socket.destroy())
  })
  t.false(isOpen, `${name}: the port is closed`)
}

/** Of all passwords that there ever were, and the next ones, only that of the row is accepted: the one that the API gave last. */
async function assertOnePassword(t: ExecutionContext, rental: Rental, { name, kind, answer, isDoubtful }: Ended) {
  const { platform } = rental.stage
  const row = (await rental.row())!
  const key = await databasePasswordKey(platform.db, platform.base.config.sealKeys)
  const of = (generation: number) => databasePassword(key, row.id, generation)
  const own = of(row.password_generation)
  const inDoubt = isDoubtful && kind === 'rotate' && answer.status !== 200
  if (inDoubt || kind === 'create') rental.password = own
  t.is(own, rental.password, `${name}: the password of the row is the one that was given last`)
  const adapter = engineOf(rental.engine)
  const accepted = async () => {
    const found: number[] = []
    for (let generation = 0; generation <= row.password_generation + 2; generation++)
      if ((await adapter.login(rental.remote, of(generation))) === 'accepted') found.push(generation)
    return found
  }
  const found = await platform.until(() => accepted().catch(() => null), 60, `${name}: it answers`)
  t.deepEqual(found, [row.password_generation], `${name}: exactly one password works`)
}

/** The container and the volume have what the row says; a volume never shrinks. */
async function assertSize(t: ExecutionContext, row: DatabaseRow, { stage }: Rental, { host, name }: Ended) {
  const { platform } = stage
  const { HostConfig } = await bareDocker.getContainer(row.container_id!).inspect()
  t.is(HostConfig.Memory, row.ram_mb * MiB, `${name}: the memory of its container`)
  const { BERTH_DATA: root, DISK_MB_PER_256MB: diskMb } = platform.base.settings
  const image = `${root}/hosts/${platform.hostId(host)}/images/${row.id}-${row.generation}.ext4`
  const { size } = await stat(image)
  t.true(size >= diskMbFor(row.ram_mb, Number(diskMb)) * MiB, `${name}: the size of its volume is ${size}`)
}

/** What was issued last when the caller was told so is shown, and nothing later: a pair that is lost is issued anew. */
async function assertCertificate(t: ExecutionContext, rental: Rental, { name, kind, answer }: Ended): Promise<void> {
  if (kind !== 'certify' || answer.status !== 200) return
  const customer = await rental.stage.platform.until(
    () => rental.connect().catch(() => null),
    60,
    `${name}: it answers`,
  )
  customer.end()
  t.is(customer.fingerprint, rental.fingerprint, `${name}: its certificate is shown`)
}

/** Every write that was acknowledged is there, but for what a restore has replaced: of that nothing is. */
async function assertWrites(t: ExecutionContext, rental: Rental, ended: Ended, state: string): Promise<void> {
  const { name, kind, before, since, begun, after } = ended
  const { platform } = rental.stage
  const count = rental.acknowledged.length
  rental.write()
  await platform.until(async () => rental.acknowledged.length > count + 2, 90, `${name}: it takes writes`)
  await rental.rest()
  const read = async () => {
    const customer = await rental.connect()
    try {
      return await customer.read()
    } finally {
      customer.end()
    }
  }
  const present = new Set(await platform.until(() => read().catch(() => null), 60, `${name}: it can be read`))
  const isRestored = (kind === 'restore' || kind === 'moment') && state === 'success'
  const required = rental.acknowledged.filter((_, n) => !(isRestored && n >= before && n < after))
  const lost = required.filter(number => !present.has(number))
  t.deepEqual(lost, [], `${name}: of ${required.length} acknowledged writes, these are lost`)
  if (isRestored) {
    const replaced = rental.acknowledged.slice(since, begun)
    t.true(replaced.length > 0, `${name}: something was written before the restore`)
    const stayed = replaced.filter(number => present.has(number))
    t.deepEqual(stayed, [], `${name}: of ${replaced.length} writes that the restore takes, these are still there`)
  }
  const known = new Set([...rental.acknowledged, ...rental.doubtful])
  t.deepEqual(
    [...present].filter(number => !known.has(number)),
    [],
    `${name}: nothing was written twice or by others`,
  )
  // What is lost for good is no part of later cases.
  rental.acknowledged.splice(0, Number.POSITIVE_INFINITY, ...rental.acknowledged.filter(number => present.has(number)))
}

/** A database that was deleted, or is missing: nothing of it is left. */
export async function assertNothingLeft(stage: DatabaseStage, host: string, name: string): Promise<void> {
  const { platform } = stage
  let seen = ''
  const isEmpty = async () => {
    const remains = await platform.remains(host)
    seen = JSON.stringify(remains)
    return Object.values(remains).every(list => list.length === 0) && admissionsOf(platform.hostId(host)).length === 0
  }
  await platform.until(isEmpty, 180, `${name}: nothing is left`).catch(error => {
    throw new Error(`${error.message}: ${seen}`)
  })
}
