import fc from 'fast-check'
import type { Endpoint } from '../../../api/pipeline/endpoint.ts'
import { blobApi } from '../../../api/pipeline/openapi.ts'
import { blobEndpoints } from '../../../api/v1/endpoints.ts'
import { endpoints } from '../../../api/v2/endpoints.ts'
import { type Answer, codeOf, type TestApi } from '../actors/api.ts'
import { type Operation, operationsOf, schemaOfCall, schemaValidator } from './api-operations.ts'
import { type CallValues, call, makeWorld } from './api-world.ts'
import { type Known, valuesOf } from './schema-values.ts'
import { wrongOnes } from './wrong-values.ts'

/** The operations of both documents. */
export const operations: Operation[] = [
  ...operationsOf(endpoints),
  ...operationsOf(blobEndpoints as readonly Endpoint[], blobApi),
]

/**
 * Refusals with 400 that no schema can foresee: what is named is not there, not the caller's, not in the state for it, or fits no other
 * part of the request.
 */
const refusedByState: Record<string, readonly string[]> = {
  'apps.create': ['FEW_MEMORY', 'FAILED_CLUSTER_SELECTION'],
  'apps.files.move': ['INVALID_PATH'],
  'apps.envs.merge': ['TOO_MANY_ENV_VARS'],
  'apps.network.custom': ['INVALID_DOMAIN', 'RESERVED_DOMAIN'],
  // Text that is no network.
  'apps.network.settings.update': ['INVALID_PARAMETERS', 'NO_UPDATE_DATA'],
  'apps.network.dns': ['NO_CUSTOM_DOMAIN'],
  // Ends that do not fit each other, and texts that are no time or address.
  'apps.network.analytics': ['INVALID_TIME_RANGE', 'INVALID_FILTER'],
  'apps.network.errors': ['INVALID_TIME_RANGE'],
  'apps.network.logs': ['INVALID_TIME_RANGE'],
  'apps.network.performance': ['INVALID_TIME_RANGE'],
  // Fields that do not fit each other.
  'ai.chat': ['INVALID_MESSAGES', 'INVALID_TOOLS', 'INVALID_TOOL_CHOICE'],
  'apps.unlink': ['GIT_NOT_CONFIGURED'],
  'apps.snapshots.restore': ['INVALID_SNAPSHOT_ID'],
  'databases.create': ['INVALID_DATABASE_VERSION', 'INVALID_MEMORY', 'INSUFFICIENT_MEMORY'],
  'databases.update': ['NO_UPDATE_DATA', 'INSUFFICIENT_MEMORY'],
  'databases.certificate': ['DATABASE_NOT_RUNNING'],
  'databases.reset': ['DATABASE_NOT_RUNNING'],
  'workspaces.create': ['WORKSPACE_LIMIT_REACHED'],
  'workspaces.leave': ['CANNOT_LEAVE_OWNER'],
  'workspaces.members.add': ['INVALID_CODE', 'CANNOT_INVITE_OWNER', 'MEMBER_ALREADY_ADDED'],
  'workspaces.members.change': ['CANNOT_EDIT_OWNER'],
  'workspaces.members.remove': ['CANNOT_EDIT_OWNER'],
  'workspaces.apps.share': ['APP_ALREADY_IN_WORKSPACE'],
  'objects.upload': ['CHECKSUM_MISMATCH'],
  // A moment that cannot be restored.
  'databases.snapshots.restore': ['INVALID_PARAMETERS'],
  'objects.list': ['INVALID_CONTINUATION_TOKEN'],
  'objects.info': ['INVALID_OBJECT'],
  'objects.delete': ['INVALID_OBJECT'],
  'objects.download': ['INVALID_OBJECT'],
  'objects.copy': [
    'INVALID_OBJECT',
    'SAME_OBJECT',
    'INVALID_OBJECT_SECURITY_HASH',
    'INVALID_OBJECT_NAME',
    'BLOCKED_FILE_TYPE',
  ],
  'shares.create': ['INVALID_OBJECT'],
  'chunked.init': ['INVALID_OBJECT_NAME', 'INVALID_FILE_TYPE', 'BLOCKED_FILE_TYPE'],
  'chunked.part': ['INVALID_UPLOAD_TOKEN', 'INVALID_CHUNK_PART'],
  'chunked.status': ['INVALID_UPLOAD_TOKEN'],
  'chunked.complete': ['INVALID_UPLOAD_TOKEN', 'NO_CHUNKS_UPLOADED', 'CHUNK_TOO_SMALL', 'FILE_TOO_SMALL'],
  'chunked.abort': ['INVALID_UPLOAD_TOKEN'],
  'rules.save': ['INVALID_RULE_PREFIX'],
  'upload-tokens.create': ['UPLOAD_TOKEN_TOO_LARGE', 'BLOCKED_FILE_TYPE'],
}

export interface Run {
  seed: number
  /** Calls of each operation. */
  rounds: number
  /** No call starts later than this, in milliseconds, except the first of each operation. */
  withinMs: number
}

/**
 * Calls every operation with what its schema allows. Gives what came of it that the document does not foresee: 400 for another reason
 * than state, 500, an answer or a code that is not described.
 */
export async function fuzzed(api: TestApi, { seed, rounds, withinMs }: Run): Promise<string[]> {
  const until = performance.now() + withinMs
  const validators = schemaValidator()
  const faults: string[] = []
  let world = await makeWorld(api)
  for (const [index, operation] of operations.entries()) {
    const schema = schemaOfCall(operation)
    const isAllowed = validators(schema)
    if (operation.method !== 'GET') world = await makeWorld(api)
    const values = fc.sample(valuesOf(schema, world.known), { seed: seed + index, numRuns: rounds }) as CallValues[]
    for (const [round, given] of values.entries()) {
      if (round > 0 && performance.now() > until) break
      if (!isAllowed(given)) throw new Error(`${operation.id}: ${shown(given)} is not of the schema`)
      const answer = await call(api, world, operation, given)
      const fault = faultOf(operation, answer, validators)
      if (fault) faults.push(`${operation.id} ${fault}: ${shown(given)}`)
    }
  }
  return faults
}

/**
 * Calls every operation with what its schema refuses: one field at a time past each of its bounds, the others as they may be. Gives what
 * was not refused with 400 or 413.
 */
export async function pastBounds(api: TestApi, seed: number): Promise<{ faults: string[]; calls: number }> {
  const validators = schemaValidator()
  const faults: string[] = []
  let calls = 0
  // What is refused changes nothing.
  const world = await makeWorld(api)
  for (const operation of operations) {
    const { parameters, ...rest } = operation
    const schema = schemaOfCall({
      ...rest,
      parameters: parameters.filter(one => one.in === 'query'),
      body: asJson(rest),
    })
    const isAllowed = validators(schema)
    const inPath = fc.sample(valuesOf(schemaOfCall({ ...operation, body: undefined }), world.known), {
      seed,
      numRuns: 1,
    })[0]
    for (const wrong of wrongOnes(schema, world.known, seed) as CallValues[]) {
      // An address cannot distinguish a list from a text, nor a missing body from an empty one.
      if (isAllowed(wrong) || !canBeSent(wrong, asJson(rest) !== undefined)) continue
      calls++
      const headers = parameters.filter(one => one.in === 'header').map(({ name }) => [name, undefined])
      const given = {
        ...(inPath as object),
        ...Object.fromEntries(headers),
        ...known(world.known),
        ...(wrong as object),
      }
      const { status } = await call(api, world, operation, given)
      if (![400, 413, 431].includes(status) && !missing.includes(`${operation.id}${status}`))
        faults.push(`${operation.id} ${status}: ${shown(wrong)}`)
    }
  }
  return { faults, calls }
}

/** Ids of another form belong to nothing (contract 1.6). */
const missing = ['apps.status.all404']

const asJson = ({ body }: Pick<Operation, 'body'>) => (body?.mediaType === 'application/json' ? body : undefined)

const canBeSent = ({ body, ...query }: CallValues, hasBody: boolean): boolean =>
  hasBody === (body !== undefined) && !Object.values(query).some(Array.isArray)

const known = ({ appId, databaseId }: Known): CallValues => ({
  appId: fc.sample(appId!, 1)[0],
  databaseId: fc.sample(databaseId!, 1)[0],
})

function faultOf({ id, responses }: Operation, answer: Answer, validators: ReturnType<typeof schemaValidator>) {
  const { status, body, text } = answer
  if (status === 500 && codeOf({ body }) !== withoutProxy[id]) return `500 ${text}`
  const code = codeOf({ body }) ?? ''
  if (status === 400 && !refusedByState[id]?.includes(code)) return `400 ${code}`
  const response = responses[status]
  if (!response) return `${status} is not described`
  const schema = response.content?.['application/json']?.schema
  if (schema && !validators(schema)(body)) return `${status} is not as described: ${text.slice(0, 500)}`
  return undefined
}

/** What operations answer where no proxy runs. */
const withoutProxy: Record<string, string> = { 'apps.network.purge_cache': 'PURGE_CACHE_FAILED' }

const shown = (value: unknown): string => JSON.stringify(value).slice(0, 500)
