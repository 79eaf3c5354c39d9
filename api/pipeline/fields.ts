import { z } from 'zod'
import { resourceIdPattern, userIdPattern, workspaceIdPattern } from '../../policy/ids.ts'

/** A boolean in a query string, with its default. */
export const flagWithDefault = (usual: boolean) =>
  z
    .enum(['true', 'false', '1', '0'])
    .optional()
    .transform(text => (text === undefined ? usual : text === 'true' || text === '1'))
    .meta({ openapi: { type: 'boolean', default: usual } })

export const flag = flagWithDefault(false)

/** The number of entries on a page, 1 to `max`. */
export const pageLimit = (usual: number, max = 100) =>
  z
    .string()
    .regex(/^[1-9]\d{0,3}$/)
    .transform(Number)
    .refine(limit => limit <= max)
    .default(usual)
    .meta({ openapi: { type: 'integer', minimum: 1, maximum: max, default: usual } })

/** An optional field of a body. Null means the same as leaving it out, because many clients send null for what is not set. */
export const optional = <T extends z.ZodType>(field: T) => field.nullish().transform(value => value ?? undefined)

/** As `optional`, with a default. */
export const withDefault = <T extends z.ZodType>(usual: z.output<T>, field: T) =>
  field
    .nullish()
    .meta({ default: usual })
    .transform(value => value ?? usual)

/** ISO 8601, UTC. */
export const isoTime = z.string().meta({ openapi: { type: 'string', format: 'date-time' } })

/** For a field whose texts the endpoint checks one by one: an unstorable one does not refuse the whole request. */
export const checkedByEndpoint = { checksTexts: true } as const

/** The name that a customer gives to something. */
export const resourceName = z
  .string({ error: 'INVALID_NAME' })
  .regex(/^(?=.*[^ ])[A-Za-z0-9 _-]{1,32}$/, 'INVALID_NAME')
  .transform(name => name.trim())

const id = (pattern: RegExp) => z.string({ error: 'INVALID_ID' }).regex(pattern, 'INVALID_ID')

/** Ids in a body, where a malformed one is a bad request. */
export const appId = id(resourceIdPattern)
export const userId = id(userIdPattern)
export const workspaceId = id(workspaceIdPattern)

const appIdPattern = '^([a-f0-9]{24}|[a-f0-9]{32})(?:-[a-f0-9-]+)?$'

/** Path parameters by name, for the OpenAPI document: a malformed id in a path is a missing resource, not a bad request. */
export const pathParameters: Record<string, object> = {
  appId: {
    type: 'string',
    pattern: appIdPattern,
    description: 'Application id, optionally followed by - and a workspace id.',
  },
  workspaceId: { type: 'string', pattern: workspaceIdPattern.source, description: 'Workspace id.' },
  databaseId: { type: 'string', pattern: '^[a-f0-9]{32}$', description: 'Database id.' },
  model: { type: 'string', description: 'The name of a model.' },
  deploymentId: { type: 'string', pattern: '^[a-f0-9]{32}$', description: 'Deployment id.' },
}
