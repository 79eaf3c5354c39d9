import { z } from 'zod'
import { resourceIdPattern, userIdPattern, workspaceIdPattern } from '../../policy/ids.ts'

/** A boolean in a query string, with what holds when it is left out. */
export const flagUnlessSaid = (usual: boolean) =>
  z
    .enum(['true', 'false', '1', '0'])
    .optional()
    .transform(text => (text === undefined ? usual : text === 'true' || text === '1'))
    .meta({ openapi: { type: 'boolean', default: usual } })

export const flag = flagUnlessSaid(false)

/** How many entries a page takes, 1 to 100. */
export const pageLimit = (usual: number, most = 100) =>
  z
    .string()
    .regex(/^[1-9]\d{0,3}$/)
    .transform(Number)
    .refine(limit => limit <= most)
    .default(usual)
    .meta({ openapi: { type: 'integer', minimum: 1, maximum: most, default: usual } })

/** A field of a body that may be left out; null, as many clients send what they do not set, is the same. */
export const optional = <T extends z.ZodType>(field: T) => field.nullish().transform(value => value ?? undefined)

/** As `optional`, with what then holds. */
export const usually = <T extends z.ZodType>(usual: z.output<T>, field: T) =>
  field
    .nullish()
    .meta({ default: usual })
    .transform(value => value ?? usual)

/** ISO 8601, UTC. */
export const isoTime = z.string().meta({ openapi: { type: 'string', format: 'date-time' } })

/** Of a field whose texts its endpoint judges one by one: what cannot be stored is no reason to refuse the request as a whole. */
export const judgedByEndpoint = { judgesTexts: true } as const

const id = (pattern: RegExp) => z.string({ error: 'INVALID_ID' }).regex(pattern, 'INVALID_ID')

/** Ids in a body, where one of another form is a bad request. */
export const appId = id(resourceIdPattern)
export const userId = id(userIdPattern)
export const workspaceId = id(workspaceIdPattern)

const appIdPattern = '^([a-f0-9]{24}|[a-f0-9]{32})(?:-[a-f0-9-]+)?$'

/** Path parameters by name, for the OpenAPI document: a path id of another form is a missing resource, not a bad request. */
export const pathParameters: Record<string, object> = {
  appId: {
    type: 'string',
    pattern: appIdPattern,
    description: 'Application id, optionally followed by - and a workspace id.',
  },
  workspaceId: { type: 'string', pattern: workspaceIdPattern.source, description: 'Workspace id.' },
  deploymentId: { type: 'string', pattern: '^[a-f0-9]{32}$', description: 'Deployment id.' },
}
