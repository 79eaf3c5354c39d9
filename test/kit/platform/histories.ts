import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Client } from '@temporalio/client'
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js'
import { laneId } from '../../../workflows/ids.ts'
import { checkout } from '../command.ts'

/** Where recorded runs of every path lie. */
const histories = join(checkout, 'test', 'histories')

/** As `keepRun`, of an application's lane. */
export async function keepHistory(client: Client, name: string, appId: string): Promise<void> {
  await keepRun(client, name, laneId(appId))
}

/**
 * Writes a run into RECORD_HISTORIES, once it has ended; without that setting nothing is done. What
 * names the machine that it ran on is left out.
 */
export async function keepRun(client: Client, name: string, workflowId: string): Promise<void> {
  const folder = process.env.RECORD_HISTORIES
  if (!folder) return
  const run = client.workflow.getHandle(workflowId)
  await run.result().catch(() => {}) // one that was ended from outside is a history too
  const text = JSON.stringify(JSON.parse(historyToJSON(await run.fetchHistory()), withoutStacks))
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, `${name}.json`), `${text.replaceAll(hostname(), 'machine').replaceAll(checkout, '')}\n`)
}

const withoutStacks = (key: string, value: unknown) => (key === 'stackTrace' ? undefined : value)

/** Every recorded run with its name. */
export async function readHistories(): Promise<{ workflowId: string; history: unknown }[]> {
  const files = (await readdir(histories)).filter(file => file.endsWith('.json')).sort()
  const read = async (file: string) => JSON.parse(await readFile(join(histories, file), 'utf8'))
  return Promise.all(files.map(async file => ({ workflowId: file.slice(0, -5), history: await read(file) })))
}
