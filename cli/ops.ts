import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import { type Db, transaction } from '../db/database.ts'
import { find, type OperationRow, type OperationState } from '../db/operations/operations.ts'
import { listOperations, type OperationStory, resolveOperation, storyOf } from '../db/operations/operator.ts'
import { type Asked, cancelOperation, clearAfterUndo, retryOperation } from '../db/operations/operator-acts.ts'
import { withInstallation } from './installation/database.ts'
import type { Installation } from './installation/installation.ts'
import { laneState, wakeLane } from './ops/lane.ts'
import { operatorName, recordAct } from './ops/operator.ts'
import { explanation, headline, verdict } from './ops/ops-explanation.ts'
import { lineView, storyView } from './ops/ops-view.ts'
import { table } from './ops/ops-words.ts'
import { receiptCommands } from './ops/receipts.ts'
import { sayOnStderr } from './terminal/terminal.ts'

const states: readonly OperationState[] = ['accepting', 'queued', 'running', 'success', 'error', 'expired', 'cancelled']
const logLines = 20
const pollMs = 200

interface ListOptions {
  app?: string
  state?: string
  limit: string
  json?: boolean
}

export function opsCommand(program: Command): void {
  const ops = program
    .command('ops')
    .description('operations: what every deploy and command waits for, or why it failed')
  ops
    .command('list', { isDefault: true })
    .description('the newest operations')
    .option('--app <id>', 'only of this application')
    .option('--state <state>', states.join(', '))
    .option('--limit <n>', 'at most this many', '20')
    .option('--json', 'as a JSON array')
    .action(async ({ app, state, limit, json }: ListOptions) => {
      const filter = { appId: app, state: knownState(state), limit: wholeNumber(limit, '--limit') }
      const lines = await withInstallation((_, db) => listOperations(db, filter))
      console.log(json ? JSON.stringify(lines.map(lineView)) : table(lines, new Date()))
    })
  onOne(ops, 'show', 'one operation in a few lines', async (place, { json }) => {
    const story = await storyIn(place)
    console.log(
      json ? JSON.stringify(storyView(story, new Date())) : `${headline(story)}\n  ${verdict(story, new Date())}`,
    )
  })
  onOne(
    ops,
    'explain',
    'what it waits for or why it failed, what comes next, and what it said last',
    async (place, { json }) => {
      const story = await storyIn(place)
      const lane = await laneState(place.installation.config, story.operation.target_id)
      const now = new Date()
      console.log(json ? JSON.stringify(storyView(story, now, lane)) : explanation(story, lane, now))
    },
  )
  onOne(
    ops,
    'retry',
    'queue what failed again: the same commit, or the same archive',
    async (place, { json, force }) => {
      const asked = { operationId: place.id, actor: operatorName(), force: Boolean(force) }
      const made = await transaction(place.db, async trx => {
        const queued = await retryOperation(trx, asked)
        await recordOn(trx, 'ops.retry', queued.operationId)
        return queued
      })
      const operation = await find(place.db, made.operationId)
      if (operation) await wakeLane(place.installation.config, operation.target_id, operation.owner_id)
      console.log(
        json
          ? JSON.stringify({ operation: made.operationId })
          : `Queued as operation ${made.operationId}, number ${made.position} in its queue. Follow it: berth ops explain ${made.operationId.slice(0, 8)}`,
      )
    },
  ).option('--force', 'also when something newer was deployed since')
  onOne(
    ops,
    'cancel',
    'end a deploy, restore or snapshot, and wait until its end is confirmed',
    async (place, { json, wait }) => {
      const seconds = wholeNumber(wait ?? '', '--wait')
      const end = await cancel(place, { operationId: place.id, actor: operatorName() }, seconds)
      if (json)
        console.log(JSON.stringify({ operation: end.id, state: end.state, code: end.code, message: end.message }))
      else console.log(cancelWords(end))
      if (end.state !== 'cancelled') process.exitCode = 1
    },
  ).option('--wait <seconds>', 'how long to wait for the end', '120')
  onOne(
    ops,
    'clear',
    'take off the mark that its failed undo has left on its application, after you have looked after it',
    async (place, { json }) => {
      const asked = { operationId: place.id, actor: operatorName() }
      await transaction(place.db, async trx => {
        await clearAfterUndo(trx, asked)
        await recordOn(trx, 'ops.clear', place.id)
      })
      console.log(json ? JSON.stringify({ operation: place.id }) : 'Its application is not marked any more.')
    },
  )
  receiptCommands(ops)
}

interface Place {
  installation: Installation
  db: Db
  /** Of the operation that the person named. */
  id: string
}

interface OneOptions {
  json?: boolean
  force?: boolean
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
    .argument('<id>', 'of the operation or its deployment; its first characters do')
    .option('--json', 'as one JSON object')
    .action((start: string, options: OneOptions) =>
      withInstallation(async (installation, db) => work({ installation, db, id: await named(db, start) }, options)),
    )
}

/** The one operation that a person means. Throws an Error that names the candidates. */
export async function named(db: Db, start: string): Promise<string> {
  const [id, ...others] = await resolveOperation(db, start)
  if (!id) throw new Error(`There is no operation or deployment "${start}". See: berth ops list`)
  if (others.length > 0) throw new Error(`"${start}" can mean several operations: ${[id, ...others].join(', ')}`)
  return id
}

async function storyIn({ db, id }: Place): Promise<OperationStory> {
  const story = await storyOf(db, id, logLines)
  if (!story) throw new Error(`The operation ${id} is gone.`)
  return story
}

/** Resolves to the operation as it ended, or as it stands when the time is over. */
async function cancel({ installation, db }: Place, asked: Asked, seconds: number): Promise<OperationRow> {
  const done = await transaction(db, async trx => {
    const state = await cancelOperation(trx, asked)
    await recordOn(trx, 'ops.cancel', asked.operationId)
    return state
  })
  const operation = (await find(db, asked.operationId)) as OperationRow
  if (done === 'ended') return operation
  const woken = await wakeLane(installation.config, operation.target_id, operation.owner_id)
  if (!woken) sayOnStderr('Temporal does not answer; the request is written down and is heard when it is back.')
  for (const deadline = Date.now() + seconds * 1000; Date.now() < deadline; await sleep(pollMs)) {
    const now = await find(db, asked.operationId)
    if (now && !['queued', 'running'].includes(now.state)) return now
  }
  return (await find(db, asked.operationId)) as OperationRow
}

/** The owner of an application sees what an operator has done to it. */
async function recordOn(trx: Db, action: string, operationId: string): Promise<void> {
  const { owner_id: accountId, target_id: resource } = (await find(trx, operationId)) as OperationRow
  await recordAct(trx, { action, accountId, resource, operationId })
}

function cancelWords({ id, state, code }: OperationRow): string {
  if (state === 'cancelled') return `${id} is cancelled; its end is confirmed.`
  if (state === 'running')
    return `${id} is asked to end, and has not confirmed it yet. See: berth ops explain ${id.slice(0, 8)}`
  return `${id} ended before it could be cancelled: ${state}${code ? `, ${code}` : ''}.`
}

function knownState(text: string | undefined): OperationState | undefined {
  const known = states.find(state => state === text)
  if (text !== undefined && !known) throw new Error(`--state must be one of: ${states.join(', ')}`)
  return known
}

function wholeNumber(text: string, option: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error(`${option} must be a whole number from 1.`)
  return Number(text)
}
