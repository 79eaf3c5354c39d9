import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { OperationKind } from '../../../db/operations/operation-kinds.ts'
import * as operations from '../../../db/operations/operations.ts'
import { chunkedAs } from '../actors/chunked.ts'
import { answering, page } from '../platform/installation.ts'
import { inDatabase, type PowerLossLoad } from './power-loss-load.ts'
import { checkS3 } from './power-loss-s3.ts'

type Say = (what: string) => void

/**
 * What was answered and is not so, in words. Everything that is under way comes to its end first; what was requested and not
 * answered may be or not, and is from then on what it was found to be.
 */
export async function brokenPromises(load: PowerLossLoad, dataDir: string): Promise<string[]> {
  const broken: string[] = []
  const say: Say = what => void broken.push(what)
  const cutInGate = await checkOperations(load, say)
  await checkParts(load, say)
  await checkObjects(load, say)
  await checkS3(load.s3, say)
  await checkFiles(load, say)
  await checkApps(load, cutInGate, say)
  await checkMails(load, dataDir, say)
  return broken
}

const same = (one: Buffer, other: Buffer): boolean => one.equals(other)

async function checkObjects({ objects, objectIds, known }: PowerLossLoad, say: Say): Promise<void> {
  for (const name of objects.names()) {
    const answer = await fetch(`${known.public_url}/${objectIds.get(name)}`)
    const bytes = Buffer.from(await answer.arrayBuffer())
    const seen = answer.status === 404 ? null : bytes
    if (answer.status < 500 && objects.allows(name, seen, same)) objects.settle(name, seen)
    else say(`object ${name}: ${answer.status}, ${bytes.length} bytes, not ${objects.last(name)?.length}`)
  }
}

async function checkFiles({ files, api, target }: PowerLossLoad, say: Say): Promise<void> {
  for (const path of files.names()) {
    const query = new URLSearchParams({ path, encoding: 'base64' })
    const { status, body } = await api.get(`/v2/apps/${target.id}/files/content?${query}`)
    const seen = status === 200 ? Buffer.from(body.response.data, 'base64') : null
    if (status < 500 && files.allows(path, seen, same)) files.settle(path, seen)
    else say(`file ${path}: ${status}, ${seen?.length} bytes, not ${files.last(path)?.length}`)
  }
}

/** Parts are there when the upload can be completed from them, and is what was sent. */
async function checkParts({ uploads, objects, objectIds, blob, known }: PowerLossLoad, say: Say): Promise<void> {
  const chunked = chunkedAs(blob)
  for (const upload of uploads.names()) {
    const status = await chunked.status(upload)
    const numbers: number[] | null =
      status.status === 200 ? status.body.response.parts.map(({ part }: { part: number }) => part) : null
    const seen = numbers && new Map(numbers.map(part => [part, Buffer.alloc(0)]))
    if (!uploads.allows(upload, seen, (one, other) => `${[...one.keys()]}` === `${[...other.keys()]}`))
      say(`an upload in parts: ${status.status}, parts ${numbers}, not ${[...(uploads.last(upload)?.keys() ?? [])]}`)
    const sent = uploads.last(upload)
    if (seen?.size && sent?.size === seen.size) {
      const { id } = (await chunked.complete(upload)).body.response
      const answer = await fetch(`${known.public_url}/${id}`)
      const [bytes, wanted] = [Buffer.from(await answer.arrayBuffer()), Buffer.concat([...sent.values()])]
      if (!bytes.equals(wanted)) say(`an upload in parts: ${answer.status}, ${bytes.length} bytes of ${wanted.length}`)
      objectIds.set(`completed-${upload}`, id)
      objects.settle(`completed-${upload}`, bytes)
    } else if (seen) await chunked.abort(upload)
    uploads.settle(upload, null)
  }
}

async function checkApps(
  { apps, api, domains, known }: PowerLossLoad,
  cutInGate: ReadonlyMap<string, OperationKind>,
  say: Say,
): Promise<void> {
  for (const id of apps.names()) {
    const domain = domains.get(id)!
    const { status } = await api.get(`/v2/apps/${id}`)
    const cut = cutInGate.get(id)
    if (cut === 'create') await api.post(`/v2/apps/${id}/start`)
    const text = status === 404 ? null : (await answering(known, domain, 60)).replace(/^200 /, '')
    const isBefore = cut === 'deploy' && status === 200 && !text?.startsWith('404')
    if (isBefore || apps.allows(id, text, (one, other) => one === other)) apps.settle(id, text)
    else say(`application ${domain}: ${status}, "${text?.slice(0, 40)}", not "${apps.last(id)}"`)
    if (text === null && (await page(known, domain).catch(() => '')).startsWith('200')) say(`${domain} still answers`)
  }
}

/** Queued or in the folder: what is queued gets there. */
async function checkMails({ mails }: PowerLossLoad, dataDir: string, say: Say): Promise<void> {
  const folder = join(dataDir, 'mail')
  const missing = new Set(mails)
  for (const deadline = Date.now() + 60_000; missing.size > 0 && Date.now() < deadline; await sleep(200))
    for (const name of await readdir(folder).catch(() => [])) {
      const text = await readFile(join(folder, name), 'utf8')
      const to = /^To: .*?([^\s<]+@example\.org)/m.exec(text)?.[1]
      if (to) missing.delete(to)
    }
  for (const email of missing) say(`the mail to ${email}`)
}

/**
 * Creations have succeeded, pushes have too or were overtaken by a later one. Resolves to the applications whose container the cut
 * took away in the middle of its health gate: a machine that loses power begins another boot, and the gate starts over; this one goes
 * on with the same, and the gate finds a program that has ended. They are there, with their files.
 */
async function checkOperations(
  { operations: expected, deployments, known }: PowerLossLoad,
  say: Say,
): Promise<Map<string, OperationKind>> {
  const cutInGate = new Map<string, OperationKind>()
  await inDatabase(known, async db => {
    for (const id of deployments) {
      const row = await db('deployments').where({ id }).first()
      if (row) expected.set(row.operation_id, `the push ${row.revision}`)
      else say(`deployment ${id}`)
    }
    for (const [id, what] of expected) {
      let row = await operations.findOperation(db, id)
      for (const deadline = Date.now() + 120_000; isUnderWay(row?.state) && Date.now() < deadline; await sleep(100))
        row = await operations.findOperation(db, id)
      const well = row?.state === 'success' || (row?.kind === 'deploy' && row.state === 'cancelled')
      if (row?.code === 'HEALTH_CHECK_FAILED') cutInGate.set(row.target_id, row.kind)
      else if (!well) say(`${what}: ${row?.state} ${row?.code ?? ''}`)
    }
  })
  expected.clear()
  deployments.clear()
  return cutInGate
}

const isUnderWay = (state = ''): boolean => ['accepting', 'queued', 'running'].includes(state)
