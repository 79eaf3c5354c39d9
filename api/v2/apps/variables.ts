import { z } from 'zod'
import { assertReadable, changeVariables, readVariables, type VariablesChange } from '../../../db/apps/app-variables.ts'
import type { AppRow } from '../../../db/apps/apps.ts'
import {
  merged,
  namesFrom,
  namesShown,
  type Variables,
  variablesFrom,
  variablesShown,
} from '../../../policy/apps/variables.ts'
import { jsonBodyBytes } from '../../../policy/body-budgets.ts'
import { CodedError, type ErrorCode } from '../../../policy/errors.ts'
import { type Call, endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'

const path = '/v2/apps/{appId}/envs'
const maxBodyBytes = jsonBodyBytes.variables
const write = { scope: 'envs:write', permission: 'envs' } as const
const response = z.record(z.string(), z.string())

const valuesBody = z.object({ envs: z.unknown().transform(variablesFrom).meta({ openapi: variablesShown }) })
const namesBody = z.object({ envs: z.unknown().transform(namesFrom).meta({ openapi: namesShown }) })

const refusals = [
  'STATIC_APP_ENV_NOT_SUPPORTED',
  'INVALID_ENV_CONTENT',
  'ENV_NAME_TOO_LONG',
  'ENV_BUSY',
] as const satisfies readonly ErrorCode[]
const sizes = ['ENV_CONTENT_TOO_LONG', 'TOO_MANY_ENV_VARS'] as const satisfies readonly ErrorCode[]

/** Contract 4.23: the answer is the whole map. */
export const listVariables = endpoint({
  name: 'apps.envs',
  method: 'GET',
  path,
  summary: 'Read the environment variables of an application',
  auth: { scope: 'envs:read', permission: 'envs' },
  response,
  errors: ['STATIC_APP_ENV_NOT_SUPPORTED', 'READ_FAILED'],
  async handle({ app }, { db, config }) {
    assertProgram(app)
    const { values, unreadable } = await readVariables(db, config.sealKeys, app.id)
    assertReadable(unreadable)
    return onWire(values)
  },
})

export const mergeVariables = endpoint({
  name: 'apps.envs.merge',
  method: 'POST',
  path,
  summary: 'Set environment variables of an application and keep the others',
  auth: write,
  body: valuesBody,
  maxBodyBytes,
  namesAreData: true,
  response,
  errors: [...refusals, ...sizes, 'READ_FAILED'],
  async handle({ app, body, exchange }, services) {
    const apply = (before: Variables) => merged(before, body.envs)
    return changeAndList({ app, exchange }, services, { touches: name => body.envs.has(name), apply })
  },
})

/** An empty object removes all; earlier values need not be readable. */
export const replaceVariables = endpoint({
  name: 'apps.envs.replace',
  method: 'PUT',
  path,
  summary: 'Replace all environment variables of an application',
  auth: write,
  body: valuesBody,
  maxBodyBytes,
  namesAreData: true,
  response,
  errors: [...refusals, ...sizes],
  async handle({ app, body, exchange }, services) {
    return changeAndList({ app, exchange }, services, { touches: () => true, apply: () => body.envs })
  },
})

/** Unknown names are ignored. */
export const removeVariables = endpoint({
  name: 'apps.envs.remove',
  method: 'DELETE',
  path,
  summary: 'Remove environment variables of an application',
  auth: write,
  body: namesBody,
  maxBodyBytes,
  response,
  errors: [...refusals, 'READ_FAILED'],
  async handle({ app, body, exchange }, services) {
    const apply = (before: Variables) => new Map([...before].filter(([name]) => !body.envs.has(name)))
    return changeAndList({ app, exchange }, services, { touches: name => body.envs.has(name), apply })
  },
})

async function changeAndList(
  { app, exchange }: Pick<Call<typeof write>, 'app' | 'exchange'>,
  { db, config }: Services,
  change: VariablesChange,
): Promise<Record<string, string>> {
  assertProgram(app)
  const { variables, changed } = await changeVariables(db, config.sealKeys, app.id, change)
  exchange.changedNothing = !changed
  return onWire(variables)
}

function assertProgram({ language }: AppRow): void {
  if (language === 'static') throw new CodedError('STATIC_APP_ENV_NOT_SUPPORTED')
}

/** `fromEntries` defines properties, so `__proto__` is a name like any other. */
const onWire = (variables: Variables): Record<string, string> =>
  Object.fromEntries([...variables].sort(([a], [b]) => (a < b ? -1 : 1)))
