import type { Command } from 'commander'
import { type Db, transaction } from '../db/database.ts'
import {
  findOperation,
  type OperationRow,
  type OperationState,
  type OperationTarget,
} from '../db/operations/operations.ts'
import { listOperations, type OperationStory, readOperationStory, resolveOperation } from '../db/operations/operator.ts'
import { cancelOperation, clearUndoMark, type OperatorRequest, retryOperation } from '../db/operations/operator-acts.ts'
import { plansOf } from '../workers/adapters/plans.ts'
import { withInstallation } from './installation/database.ts'
import type { Installation } from './installation/installation.ts'
import { awaitEnd, laneState, wakeLane, wakeLaneOrSay } from './ops/lane.ts'
import { operatorName, recordAct } from './ops/operator.ts'
import { explanation, headline, verdict } from './ops/ops-explanation.ts'
import { lineView, storyView } from './ops/ops-view.ts'
import { table } from './ops/ops-words.ts'
import { receiptCommands } from './ops/receipts.ts'
import { limitFrom, secondsFrom } from './terminal/options.ts'

const states: readonly OperationState[] = ['accepting', 'queued', 'running', 'success', 'error', 'expired', 'cancelled']
const logLines = 20

interface ListOptions {
  app?: string
  database?: string
  state?: string
  limit: string
  json?: boolean
}

export function opsCommand(program: Command): void {
  const ops = program.command('ops')
  ops
    .command('list', { isDefault: true })
    .description('the newest operations')
    .option('--app <id>', 'only those of this application')
    .option('--database <id>', 'only those of this database')
    .option('--state <state>', states.join(', '))
    .option('--limit <n>', 'maximum number of entries', '20')
    .option('--json', 'as a JSON array')
    .action(async ({ app, database, state, limit, json }: ListOptions) => {
      if (app && database) throw new Error('Specify --app or --database, not both.')
      const limits = { state: stateFrom(state), limit: limitFrom(limit) }
      const filter = { appId: app, databaseId: database, ...limits }
      const lines = await withInstallation((_, db) => listOperations(db, filter))
      console.log(json ? JSON.stringify(lines.map(lineView)) : table(lines, new Date()))
    })
  onOne(ops, 'show', 'the state of one operation in a few lines', async (place, { json }) => {
    const story = await storyIn(place)
    console.log(
      json ? JSON.stringify(storyView(story, new Date())) : `${headline(story)}\n  ${verdict(story, new Date())}`,
    )
  })
  onOne(
    ops,
    'explain',
    'why an operation waits or failed, what comes next, and the last lines of its log',
    async (place, { json }) => {
      const story = await storyIn(place)
      const lane = await laneState(place.installation.config, targetOf(story.operation))
      const now = new Date()
      console.log(json ? JSON.stringify(storyView(story, now, lane)) : explanation(story, lane, now))
    },
  )
  onOne(
    ops,
    'retry',
    'retry a failed operation with the same commit or archive; with --clean, also redeploy the running commit',
    async (place, { json, force, clean }) => {
      const { config } = place.installation
      const elsewhere = { plans: plansOf(config), diskMbPer256Mb: config.host.diskMbPer256Mb }
      const terms = { force: Boolean(force), clean: Boolean(clean), place: elsewhere }
      const request = { operationId: place.id, actor: operatorName(), ...terms }
      const retry = await transaction(place.db, async trx => {
        const queued = await retryOperation(trx, request)
        await recordOn(trx, 'ops.retry', queued.operationId)
        return queued
      })
      const { operation, before } = await storyIn({ ...place, id: retry.operationId })
      await wakeLane(config, targetOf(operation), operation.owner_id)
      console.log(
        json
          ? JSON.stringify({ operation: retry.operationId })
          : `Queued as operation ${retry.operationId}, number ${before.length + 1} in its queue. Follow it with: berth ops explain ${retry.operationId.slice(0, 8)}`,
      )
    },
  )
    .option('--force', 'even if something newer has been deployed since')
    .option('--clean', 'reinstall its dependencies, without the result of an earlier install step')
  onOne(
    ops,
    'cancel',
    'cancel a deploy, restore, snapshot or drill, and wait until that is confirmed',
    async (place, { json, wait }) => {
      const seconds = secondsFrom(wait ?? '')
      const end = await cancel(place, { operationId: place.id, actor: operatorName() }, seconds)
      if (json)
        console.log(JSON.stringify({ operation: end.id, state: end.state, code: end.code, message: end.message }))
      else console.log(cancelWords(end))
      if (end.state !== 'cancelled') process.exitCode = 1
    },
  ).option('--wait <seconds>', 'maximum time to wait for confirmation', '120')
  onOne(
    ops,
    'clear',
    'remove the mark that a failed rollback left on the application, once you have repaired it by hand',
    async (place, { json }) => {
      const request = { operationId: place.id, actor: operatorName() }
      await transaction(place.db, async trx => {
        await clearUndoMark(trx, request)
        await recordOn(trx, 'ops.clear', place.id)
      })
      console.log(json ? JSON.stringify({ operation: place.id }) : 'Its application is no longer marked.')
    },
  )
  receiptCommands(ops)
}

interface Place {
  installation: Installation
  db: Db
  /** Id of the operation that the operator named. */
  id: string
}

interface OneOptions {
  json?: boolean
  force?: boolean
  clean?: boolean
  wait?: string
}

function onOne(
  ops: Command,
  verb: string,
  words: string,
  work: (place: Place, options: OneOptions) => Promise<void>,
): Command {
  return ops
    .command(verb)
    .description(words)
    .argument('<id>', 'id of the operation or its deployment, or its first characters')
    .option('--json', 'as one JSON object')
    .action((start: string, options: OneOptions) =>
      withInstallation(async (installation, db) =>
        work({ installation, db, id: await operationIdFrom(db, start) }, options),
      ),
    )
}

/** The only operation whose id begins like this. Throws an Error that names the candidates if there are several. */
export async function operationIdFrom(db: Db, start: string): Promise<string> {
  const [id, ...others] = await resolveOperation(db, start)
  if (!id) throw new Error(`There is no operation or deployment "${start}". See: berth ops list`)
  if (others.length > 0) throw new Error(`"${start}" matches several operations: ${[id, ...others].join(', ')}`)
  return id
}

async function storyIn({ db, id }: Place): Promise<OperationStory> {
  const story = await readOperationStory(db, id, logLines)
  if (!story) throw new Error(`The operation ${id} was deleted.`)
  return story
}

/** Resolves to the operation once it has ended, or as it is when the time is over. */
async function cancel({ installation, db }: Place, request: OperatorRequest, seconds: number): Promise<OperationRow> {
  const done = await transaction(db, async trx => {
    const state = await cancelOperation(trx, request)
    await recordOn(trx, 'ops.cancel', request.operationId)
    return state
  })
  const operation = (await findOperation(db, request.operationId)) as OperationRow
  if (done === 'ended') return operation
  await wakeLaneOrSay(installation.config, targetOf(operation), operation.owner_id)
  return (await awaitEnd(db, request.operationId, seconds)) as OperationRow
}

const targetOf = ({ target_type: type, target_id: id }: OperationRow): OperationTarget => ({ type, id })

/** Records the act with the owner's account: owners see what operators do to their applications and databases. */
async function recordOn(trx: Db, action: string, operationId: string): Promise<void> {
  const { owner_id: accountId, target_id: resource } = (await findOperation(trx, operationId)) as OperationRow
  await recordAct(trx, { action, accountId, resource, operationId })
}

function cancelWords({ id, state, code }: OperationRow): string {
  if (state === 'cancelled') return `${id} was cancelled, and its end is confirmed.`
  if (state === 'running')
    return `Cancelling ${id} was requested and is not confirmed yet. See: berth ops explain ${id.slice(0, 8)}`
  return `${id} ended before it could be cancelled: ${state}${code ? `, ${code}` : ''}.`
}

function stateFrom(text: string | undefined): OperationState | undefined {
  const match = states.find(state => state === text)
  if (text !== undefined && !match) throw new Error(`--state must be one of: ${states.join(', ')}`)
  return match
}
