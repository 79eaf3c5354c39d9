import fc from 'fast-check'
import { issueInvite } from '../../../db/accounts/workspace-members.ts'
import { findObject } from '../../../db/objects/objects.ts'
import { createShare } from '../../../db/objects/shares.ts'
import { objectName } from '../../../policy/objects/object-names.ts'
import type { Answer, TestApi, TestUser } from '../actors/api.ts'
import { chunkedAs } from '../actors/chunked.ts'
import { formOf, sent } from '../actors/sent-files.ts'
import { makeWorkspace } from '../rows/workspaces.ts'
import { zipOf } from '../zips.ts'
import type { Operation } from './api-operations.ts'
import type { Known } from './schema-values.ts'

/** An account that has one of everything that an operation may name. */
export interface World {
  user: TestUser
  known: Known
}

/** Makes an account with one of everything, and says by which fields it is named. */
export async function makeWorld(api: TestApi): Promise<World> {
  const { db } = api
  const [user, member, guest] = [await api.makeUser(), await api.makeUser(), await api.makeUser()]
  const app = await api.makeApp(user, { memoryMb: 512 })
  const shared = await api.makeApp(user)
  const database = await api.makeDatabase(user)
  const workspace = await makeWorkspace(db, user, { members: [[member, 'view']], apps: [shared] })
  const object = await sent(api, user, { name: 'known' })
  const row = await findObject(db, objectName(object.id)!)
  const share = await createShare(db, { object: row!, expiresInSeconds: 3600, maxDownloads: null, passwordHash: null })
  const opened = await chunkedAs(api.blobAs(user)).init()
  const deployment: { id: string } = await db('deployments').where({ app_id: app.id }).first('id')
  const named = {
    appId: app.id,
    databaseId: database.id,
    version: '8',
    workspaceId: workspace.id,
    memberId: member.id,
    code: await issueInvite(db, guest.id),
    deploymentId: deployment.id,
    object: object.id,
    objects: object.id,
    source: object.id,
    upload: opened.body.response.upload as string,
    id: share.id,
    snapshotId: `${app.id}_javascript_manual`,
    part: 1,
  }
  return { user, known: Object.fromEntries(Object.entries(named).map(([name, value]) => [name, fc.constant(value)])) }
}

/** What the parameters and the body of an operation are given, by name. */
export type CallValues = Record<string, unknown>

/** Sends what an operation is called with, as the document says that it comes. */
export function call(api: TestApi, { user }: World, operation: Operation, values: CallValues): Promise<Answer> {
  const { id, method, path, parameters, body } = operation
  const texts = (place: string): [name: string, text: string][] =>
    parameters
      .filter(one => one.in === place && values[one.name] !== undefined)
      .map(({ name }) => [name, String(values[name])])
  const query = new URLSearchParams(Object.fromEntries(texts('query')))
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(values[name])))
  const headers = Object.fromEntries(texts('header'))
  const wire = path.startsWith('/v1/') ? api.blobAs(user) : api.as(user)
  const sentBody = body && bodyOf(body.mediaType, id, values.body)
  return wire.request(method, `${filled}${query.size > 0 ? `?${query}` : ''}`, { headers, body: sentBody })
}

function bodyOf(mediaType: string, operation: string, value: unknown): RequestInit['body'] {
  if (mediaType === 'application/json') return JSON.stringify(value)
  if (mediaType === 'application/octet-stream') return new Uint8Array(Buffer.from(`${value}.`))
  return formOf(
    operation === 'apps.create' ? { bytes: program, fileName: 'app.zip' } : { bytes: 'hello', fileName: 'a.txt' },
  )
}

const program = zipOf({
  'berth.app': 'DISPLAY_NAME=fuzz\nMAIN=index.js\nMEMORY=256\nVERSION=recommended\n',
  'index.js': 'setInterval(() => {}, 1000)',
  'package.json': '{"name":"fuzz"}',
})
