import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import type { Endpoint } from '../../../api/pipeline/endpoint.ts'
import { blobEndpoints } from '../../../api/v1/endpoints.ts'
import { endpoints } from '../../../api/v2/endpoints.ts'

/** Where codes are thrown, or come from as the outcome of an operation. */
const folders = ['api', 'db', 'policy', 'activities', 'workflows']
const catalogues = ['policy/errors.ts', 'policy/objects/blob-errors.ts']
const all: Endpoint[] = [...endpoints, ...blobEndpoints]

/** Sources without the lists that only declare codes. */
function throwing(): string {
  const paths = folders.flatMap(folder =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map(path => join(folder, path)),
  )
  const sources = paths.filter(path => path.endsWith('.ts') && !catalogues.includes(path))
  return sources
    .map(path => readFileSync(path, 'utf8'))
    .join('\n')
    .replaceAll(/\berrors: \[[^\]]*\]/g, '')
    .replaceAll(/\b(\w*[eE]rrors|refusals|reached|sizes|\w*[cC]odes)\b[^=\n]*= \[[^\]]*\]/g, '')
}

test('every code that an endpoint declares is thrown somewhere', t => {
  const text = throwing()
  const declared = [...new Set(all.flatMap(({ errors = [] }) => errors))]
  t.true(declared.length > 100)
  t.deepEqual(
    declared.filter(code => !text.includes(`'${code}'`)),
    [],
  )
})

test('codes are declared only by endpoints that can throw them', t => {
  const declaring = (code: string) => all.filter(({ errors = [] }) => errors.some(one => one === code))
  const power = ['apps.start', 'apps.stop', 'apps.restart']
  // Both create a container that is missing.
  const missing = [...power, 'databases.start', 'databases.stop']
  for (const [code, names] of [
    ['CONTAINER_NOT_FOUND', missing],
    ['CONTAINER_NETWORK_CONFLICT', power],
  ] as const)
    t.deepEqual(
      declaring(code).filter(({ name }) => names.includes(name)),
      [],
    )
  const elsewhere: Record<string, string[]> = {
    INVALID_FILENAME: ['objects.upload'],
    UPLOAD_ABORTED: ['objects.upload'],
    UPDATE_FAILED: ['objects.update'],
    READ_FAILED: ['apps.envs.replace'],
    MISSING_CONFIG: ['apps.commit', 'apps.files.write'],
    MISSING_DEPENDENCIES_FILE: ['apps.commit'],
    CONTAINER_ALREADY_STARTED: ['apps.stop', 'apps.restart'],
    CONTAINER_ALREADY_STOPPED: ['apps.start', 'apps.restart'],
    CONTAINER_TEMPORARILY_SUSPENDED: ['apps.stop'],
  }
  for (const [code, names] of Object.entries(elsewhere))
    t.deepEqual(
      declaring(code).filter(({ name }) => names.includes(name)),
      [],
      code,
    )
})
