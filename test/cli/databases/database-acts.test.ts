import test, { type ExecutionContext } from 'ava'
import { auditCommand } from '../../../cli/audit.ts'
import { databasesCommand } from '../../../cli/databases/databases.ts'
import { drillFinding } from '../../../cli/databases/drills.ts'
import { recordDrill } from '../../../db/databases/database-drills.ts'
import { loadDatabase } from '../../../db/databases/databases.ts'
import { recordDatabaseImageIds } from '../../../db/hosts/database-images.ts'
import { addToInput } from '../../../db/operations/database-inputs.ts'
import * as operations from '../../../db/operations/operations.ts'
import type { DrillOutcome } from '../../../policy/databases/drills.ts'
import { newVersionId } from '../../../policy/ids.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'
import { makeDatabase } from '../../kit/rows/databases.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
let hosts = 0
const keys = sealKeys('00'.repeat(32))

const [one, two] = ['1', '2'].map(digit => `sha256:${digit.repeat(64)}`) as [string, string]

/** A database that runs on a host of its own, and the part of its lane played by hand. */
async function scene(t: ExecutionContext) {
  const { db, url } = await database
  await db.raw('truncate users, hosts, databases, operations, snapshots, database_drills cascade')
  const make = rows(db)
  const hostId = `h${++hosts}`
  await make.databaseHost(hostId)
  await db('hosts').update({ last_seen_at: new Date('2099-01-01') }) // it answers for as long as the test takes
  const ana = await make.user()
  const row = await makeDatabase(db, keys, ana.id, { name: 'orders' })
  const settings = { DATABASE_URL: url, BERTH_DATA: ownFolder(t), TEMPORAL_ADDRESS: '127.0.0.1:9' }
  const verbs = [databasesCommand, auditCommand]
  const berth = async (...args: string[]) => {
    const ran = await operatorHere(verbs, settings, ...args)
    process.exitCode = undefined
    return ran
  }
  /** Ends the next operation of this kind as the lane would. */
  async function lane(
    kind: string,
    end: operations.OperationOutcome,
    effect: (id: string) => Promise<unknown> = async () => {},
    databaseId = row.id,
  ) {
    await comesTrue(async () => {
      const next = await db('operations').where({ target_id: databaseId, kind, state: 'queued' }).first()
      if (!next) return false
      await operations.claimNextOperation(db, { type: 'database', id: databaseId })
      await effect(next.id)
      await operations.finishOperation(db, next.id, end)
      return true
    })
  }
  const change = (changes: object) => db('databases').where({ id: row.id }).update(changes)
  const short = row.id.slice(0, 8)
  const snapshot = async (databaseId = row.id, at = new Date('2030-01-01T10:00:00Z'), state = 'good') => {
    const id = newVersionId()
    const creation = await db('operations').where({ target_id: databaseId }).first('id')
    const of = { target_type: 'database', target_id: databaseId, owner_id: ana.id, operation_id: creation.id }
    await db('snapshots').insert({
      ...of,
      ...{ id, name: id, runtime: 'redis', origin: 'manual', state, size: 2048, contents: 'c'.repeat(64) },
      created_at: at,
    })
    return id
  }
  return { db, make, hostId, ana, row, short, berth, lane, change, snapshot, loaded: () => loadDatabase(db, row.id) }
}

test.serial('an undo says what changes before it is confirmed, and how to come back', async t => {
  const { row, short, berth, lane, change, db, ana } = await scene(t)
  t.regex(
    (await berth('databases', 'undo', short)).stderr,
    /^There is nothing to undo: the data before a restore is retained for one day/,
  )
  const restore = await operations.enqueueOperation(db, {
    ...({ targetType: 'database', targetId: row.id, kind: 'restore', ownerId: ana.id, actor: ana.id } as const),
  })
  t.regex((await berth('databases', 'undo', short)).stderr, /^A restore is queued or running\. Try again/)
  await db('operations')
    .where({ id: restore.id })
    .update({ state: 'success', finished_at: new Date('2030-01-01T10:00:00Z') })
  await change({ generation: 3, retired_generation: 1, retired_until: new Date('2099-01-01T00:00:00Z') })
  const asked = await berth('databases', 'undo', short)
  t.is(
    asked.stderr,
    [
      `The database orders (${row.id}) of ${ana.email} returns to the data that it had before the restore of 2030-01-01 10:00:00.000Z.`,
      '  Data written since then is removed from it, but retained for a day: another undo restores it.',
      '  It is unavailable for a few seconds, and its connections are closed. The current password does not change.',
      'Continue?',
      'There is no terminal to confirm on: use --yes.',
    ].join('\n'),
  )
  t.is(await db('operations').where({ kind: 'undo' }).first(), undefined)

  const [done] = await Promise.all([berth('databases', 'undo', short, '--yes'), lane('undo', { state: 'success' })])
  t.is(done.stderr, '')
  t.is(
    done.stdout,
    [
      'The database orders now has the data from before the restore of 2030-01-01 10:00:00.000Z.',
      `Its previous data is retained until 2099-01-01 00:00:00.000Z. To restore it: berth databases undo ${short}`,
      '',
    ].join('\n'),
  )
  const undo = await db('operations').where({ kind: 'undo' }).first()
  t.like(undo, { input: { swap: { from: 3, to: 1 } }, target_id: row.id, owner_id: ana.id })
  t.regex(undo.actor, /^operator:/)
  const audit = await db('audit').where({ action: 'databases.undo' }).first()
  t.like(audit, { account_id: ana.id, resource: row.id, operation_id: undo.id, actor: undo.actor })

  const failure = { state: 'error', code: 'ACTION_FAILED', message: 'The engine of the database has ended.' } as const
  const [failed] = await Promise.all([berth('databases', 'undo', short, '--yes'), lane('undo', failure)])
  t.is(
    failed.stderr,
    `The undo FAILED: ACTION_FAILED: The engine of the database has ended. See: berth databases explain ${short}`,
  )
  const [json] = await Promise.all([berth('databases', 'undo', short, '--yes', '--json'), lane('undo', failure)])
  t.like(JSON.parse(json.stdout), { database: row.id, state: 'error', code: 'ACTION_FAILED' })
  const late = await berth('databases', 'undo', short, '--yes', '--wait', '0')
  t.regex(late.stderr, /^The undo has not finished yet and continues: berth ops explain \w{8}$/)
  t.regex(
    (await berth('databases', 'undo', short, '--yes')).stderr,
    /^This is already in progress: operation \w{8} \(undo\)\.$/,
  )
})

test.serial('a start is for what should run and does not; its crashes no longer count', async t => {
  const { short, berth, lane, change, loaded, db, row, ana } = await scene(t)
  t.is((await berth('databases', 'start', short)).stderr, 'The database is already running.')
  await change({ status: 'exited', desired_state: 'stopped' })
  t.regex(
    (await berth('databases', 'start', short)).stderr,
    /^It was stopped by its owner.* Only its owner can start it: POST \/v2\/databases\//,
  )
  await change({ desired_state: 'running', restarts: 5 })
  const end = () => db('databases').where({ id: row.id }).update({ status: 'running' })
  const [ran] = await Promise.all([berth('databases', 'start', short), lane('start', { state: 'success' }, end)])
  t.is(ran.stdout, 'The database orders runs.\n')
  t.like(await loaded(), { restarts: 0 })
  t.like(await db('audit').where({ action: 'databases.start' }).first(), { account_id: ana.id, resource: row.id })
  t.regex((await berth('databases', 'start', 'ffff')).stderr, /There is no database "ffff"/)
})

test.serial('an upgrade shows what it would change; with --all it stops at the first failure', async t => {
  const { db, make, hostId, ana, row, short, berth, lane, change, snapshot } = await scene(t)
  const others = [
    await makeDatabase(db, keys, ana.id, { name: 'b' }),
    await makeDatabase(db, keys, ana.id, { name: 'c' }),
  ]
  await recordDatabaseImageIds(db, hostId, { 'berth/redis:8': two })
  await change({ image_id: one })
  await db('databases').where({ id: others[0]!.id }).update({ image_id: two })
  await snapshot()
  await snapshot(others[1]!.id)
  t.is((await berth('databases', 'upgrade')).stderr, 'Specify one database, or --all.')
  t.is((await berth('databases', 'upgrade', short, '--all')).stderr, 'Specify one database, or --all.')
  const plan = (await berth('databases', 'upgrade', '--all', '--dry-run')).stdout
  const lines = plan.trim().split('\n')
  t.regex(lines[0]!, /^ID +NAME +HOST +IMAGE +RUNS WITH +HOST HAS +PLAN$/)
  t.regex(lines[1]!, new RegExp(`^${short} +orders +${hostId} +berth/redis:8 +1{12} +2{12} +would be upgraded$`))
  t.regex(lines[2]!, / b .* 2{12} +2{12} +has the current image$/)
  t.regex(lines[3]!, / c .* - +2{12} +unknown: its image is recorded at the next start$/)
  const [first] = JSON.parse((await berth('databases', 'upgrade', short, '--dry-run', '--json')).stdout)
  t.like(first, { database: row.id, image: 'berth/redis:8', image_id: one, offered_image_id: two, plan: 'upgrade' })
  t.is(await db('operations').where({ kind: 'upgrade' }).first(), undefined)
  t.regex(
    (await berth('databases', 'upgrade', '--all')).stderr,
    /^Each of 3 databases is upgraded to the current image.*\nUpgrade\?\n.*--yes/,
  )

  const chosen = (from: string, to: string) => (id: string) => addToInput(db, id, { images: { from, to } })
  const lanes = async () => {
    await lane('upgrade', { state: 'success' }, chosen(one, two))
    await lane(
      'upgrade',
      { state: 'error', code: 'ACTION_FAILED', message: 'It ended.' },
      chosen(one, two),
      others[0]!.id,
    )
  }
  const [all] = await Promise.all([berth('databases', 'upgrade', '--all', '--yes'), lanes()])
  t.is(all.stdout, `${short} orders on ${hostId}: upgraded from ${'1'.repeat(12)} to ${'2'.repeat(12)}`)
  t.is(
    all.stderr,
    `${others[0]!.id.slice(0, 8)} b on ${hostId}: The upgrade FAILED: ACTION_FAILED: It ended. See: berth databases explain ${others[0]!.id.slice(0, 8)} It has its former image again.\nStopped here: 1 more were not touched.`,
  )
  t.is((await db('operations').where({ kind: 'upgrade', target_id: others[1]!.id })).length, 0)
  t.is((await db('audit').where({ action: 'databases.upgrade' })).length, 2)

  const [same] = await Promise.all([
    berth('databases', 'upgrade', short, '--yes', '--json'),
    lane('upgrade', { state: 'success' }, chosen(two, two)),
  ])
  t.like(JSON.parse(same.stdout)[0], { database: row.id, state: 'success', from: two, to: two })
  await make.host('gone')
  await db('hosts').update({ last_seen_at: new Date(0) })
  t.regex(
    (await berth('databases', 'upgrade', '--all', '--yes')).stderr,
    new RegExp(`on ${hostId}: its host is silent\\..*\\nStopped here: 2 more`),
  )
})

test.serial('an upgrade requires a good snapshot from the last day, unless that is waived', async t => {
  const { db, hostId, row, short, berth, lane, change, snapshot } = await scene(t)
  await recordDatabaseImageIds(db, hostId, { 'berth/redis:8': two })
  await change({ image_id: one })
  const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000)
  await snapshot(row.id, hoursAgo(25))
  await snapshot(row.id, hoursAgo(1), 'failed')
  const [plan] = JSON.parse((await berth('databases', 'upgrade', short, '--dry-run', '--json')).stdout)
  t.is(plan.plan, 'no snapshot')
  const refusal = new RegExp(
    `^${short} orders on ${hostId}: it has no good snapshot from the last 24 hours, .*POST /v2/databases/${row.id}/snapshots.* --without-snapshot\\.$`,
  )
  t.regex((await berth('databases', 'upgrade', short, '--yes')).stderr, refusal)
  t.is(await db('operations').where({ kind: 'upgrade' }).first(), undefined)
  const images = (id: string) => addToInput(db, id, { images: { from: one, to: two } })
  const interrupted = { state: 'error', code: 'RESTORE_INTERRUPTED', message: 'It could not go back.' } as const
  const [failed] = await Promise.all([
    berth('databases', 'upgrade', short, '--yes', '--without-snapshot'),
    lane('upgrade', interrupted, images),
  ])
  t.regex(failed.stderr, /FAILED: RESTORE_INTERRUPTED: It could not go back\. See: berth databases explain \w{8}$/)
  await snapshot(row.id, hoursAgo(23))
  const [done] = await Promise.all([
    berth('databases', 'upgrade', short, '--yes'),
    lane('upgrade', { state: 'success' }, images),
  ])
  t.regex(done.stdout, /: upgraded from 1{12} to 2{12}/)
})

test.serial(
  'drills print their evidence; a failure is in explain and in the doctor until the next good one',
  async t => {
    const { db, row, short, berth, lane, snapshot, hostId } = await scene(t)
    t.deepEqual(await drillFinding(db, 7), { name: 'drills of databases', state: 'none yet' })
    t.is((await berth('databases', 'drill')).stderr, 'Specify one database, --all or --list.')
    t.is((await berth('databases', 'drill', short)).stderr, 'It has no snapshot that could be restored.')
    t.regex(
      (await berth('databases', 'drill', '--all')).stdout,
      /: skipped\. It has no snapshot that could be restored\./,
    )
    t.is((await berth('databases', 'drill', '--list')).stdout, 'No drills yet.\n')
    const snapshotId = await snapshot()
    const shows = (outcome: DrillOutcome, reason: string | null) => (id: string) =>
      recordDrill(db, id, {
        host_id: hostId,
        outcome,
        code: outcome === 'good' ? null : 'SNAPSHOT_CORRUPT',
        reason,
        digest: outcome === 'good' ? 'c'.repeat(64) : null,
      })
    const corrupt = { state: 'error', code: 'SNAPSHOT_CORRUPT', message: 'Broken.' } as const
    const [bad] = await Promise.all([
      berth('databases', 'drill', short),
      lane('drill', corrupt, shows('failed', 'The archive is broken.')),
    ])
    t.regex(
      bad.stdout,
      new RegExp(
        `^${short} orders: FAILED on host ${hostId} after \\d+ s: the snapshot of 2030-01-01 10:00:00.000Z could not be restored\\. The archive is broken\\.$`,
      ),
    )
    t.is(bad.stderr, `1 of the drills did not succeed:\n${short} orders: The archive is broken.`)
    const finding = await drillFinding(db, 7)
    t.is(finding.state, `SNAPSHOTS OF 1 DATABASES COULD NOT BE RESTORED: ${short}`)
    t.regex(finding.remedy!, /berth databases drill --list/)
    const { stdout } = await berth('databases', 'explain', short)
    t.regex(
      stdout,
      /Its snapshot could not be restored in the drill that ended .* ago .*: The archive is broken\.\n +-> create a new snapshot/,
    )
    t.regex(stdout, /last drill +\d.*Z FAILED on host/)

    const away = { state: 'error', code: 'SNAPSHOT_RESTORE_FAILED', message: 'Away.' } as const
    const [prevented] = await Promise.all([
      berth('databases', 'drill', short),
      lane('drill', away, shows('prevented', 'The object store is away.')),
    ])
    t.regex(prevented.stdout, /: PREVENTED on host .* could not be tested\. The object store is away\.$/)
    t.is((await drillFinding(db, 7)).state, finding.state, 'the failure is open still')
    t.regex((await berth('databases', 'explain', short)).stdout, /in the drill that ended .*: The archive is broken\./)

    const [good] = await Promise.all([
      berth('databases', 'drill', '--all', '--json'),
      lane('drill', { state: 'success' }, shows('good', null)),
    ])
    const [evidence] = JSON.parse(good.stdout)
    t.like(evidence, {
      database: row.id,
      snapshot: snapshotId,
      outcome: 'good',
      host_id: hostId,
      size: 2048,
      reason: null,
    })
    t.like(evidence, {
      digest: 'c'.repeat(64),
      expected_digest: 'c'.repeat(64),
      snapshot_at: '2030-01-01T10:00:00.000Z',
    })
    t.regex((await drillFinding(db, 7)).state, /^no failures/)
    t.notRegex((await berth('databases', 'explain', short)).stdout, /could not be restored in the drill/)
    const list = (await berth('databases', 'drill', short, '--list')).stdout.trim().split('\n')
    t.regex(list[0]!, /^ENDED +DATABASE +SNAPSHOT OF +HOST +TOOK +BYTES +OUTCOME$/)
    t.regex(list[1]!, new RegExp(`Z +${short} +2030-01-01 10:00:00Z +${hostId} +\\d+ s +2048 +good$`))
    t.regex(list[3]!, /FAILED: The archive is broken\.$/)
    t.is(JSON.parse((await berth('databases', 'drill', '--list', '--limit', '1', '--json')).stdout).length, 1)
    t.is((await db('audit').where({ action: 'databases.drill' })).length, 3)
  },
)

test.serial('drills that are prevented for 14 days are in explain and in the doctor, and hide no failure', async t => {
  const { db, row, short, berth, snapshot, hostId, change } = await scene(t)
  const snapshotId = await snapshot()
  const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000)
  const shown = async (outcome: DrillOutcome, days: number) => {
    const target = { targetType: 'database', targetId: row.id, ownerId: row.owner_id, actor: 'platform' } as const
    const { id } = await operations.enqueueOperation(db, { ...target, kind: 'drill', input: { snapshotId } })
    await operations.finishOperation(db, id, { state: 'success' })
    const reason = outcome === 'good' ? null : `It was ${outcome}.`
    await recordDrill(db, id, { host_id: hostId, outcome, code: null, reason, digest: null })
    await db('database_drills')
      .where({ operation_id: id })
      .update({ ended_at: daysAgo(days) })
  }
  const explained = async () => (await berth('databases', 'explain', short)).stdout
  const unsuccessful =
    /No drill of it has succeeded for a long time: .* on host h\d+: It was prevented\.\n +-> remove the cause/
  await shown('prevented', 1)
  t.regex((await drillFinding(db, 7)).state, /^no failures/, 'it is new')
  await change({ created_at: daysAgo(40) })
  const finding = await drillFinding(db, 7)
  t.is(finding.state, `SNAPSHOTS OF 1 DATABASES HAVE NOT BEEN TESTED FOR 14 DAYS: ${short}`)
  t.regex(finding.remedy!, new RegExp(`host ${hostId} could not test that of ${short}: It was prevented\\.`))
  t.regex(await explained(), unsuccessful)
  t.regex((await drillFinding(db, 0)).state, /^no failures/, 'nobody wants them')
  await shown('good', 13)
  t.regex((await drillFinding(db, 7)).state, /^no failures/)
  t.notRegex(await explained(), unsuccessful)

  await shown('failed', 12)
  for (let day = 11; day > 0; day -= 0.5) await shown('prevented', day)
  t.regex((await drillFinding(db, 7)).state, /COULD NOT BE RESTORED/)
  t.regex(await explained(), /could not be restored in the drill that ended .*: It was failed\./, 'after 22 others')
})

test.serial('the image that a database keeps, and the way to undo a restore, are part of its explanation', async t => {
  const { db, hostId, berth, short, change } = await scene(t)
  await recordDatabaseImageIds(db, hostId, { 'berth/redis:8': two })
  await change({ image_id: one, retired_generation: 9, retired_until: new Date('2099-01-01') })
  const { stdout } = await berth('databases', 'explain', short)
  t.regex(stdout, new RegExp(`runs with +1{12}; its host has 2{12} under that name: berth databases upgrade ${short}`))
  t.regex(
    stdout,
    new RegExp(`undo of its restore +possible until 2099-01-01 00:00:00.000Z: berth databases undo ${short}`),
  )
  const story = JSON.parse((await berth('databases', 'explain', short, '--json')).stdout)
  t.like(story.image, { name: 'berth/redis:8', id: one, offered: two })
  t.is(story.undo_until, '2099-01-01T00:00:00.000Z')
  await change({ image_id: two, retired_until: new Date(0) })
  const now = (await berth('databases', 'explain', short)).stdout
  t.regex(now, /runs with +2{12}\n/)
  t.notRegex(now, /undo of its restore/)
})
