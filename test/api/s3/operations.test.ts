import { readFileSync } from 'node:fs'
import test from 'ava'
import fc from 'fast-check'
import { addressOf } from '../../../api/s3/addressing.ts'
import { bySpecificity, operationOf, subResources } from '../../../api/s3/dispatch.ts'
import type { Operation } from '../../../api/s3/operation.ts'
import { operations } from '../../../api/s3/operations.ts'
import { signedRequest } from '../../../api/s3/signature/signed-request.ts'

const page = readFileSync(new URL('../../../docs/s3.md', import.meta.url), 'utf8')
const paths = { service: '/', bucket: '/bucket', object: '/bucket/key' } as const

/** The row of an operation in docs/s3.md. */
const rowOf = ({ name, method, target, query = [], header, support }: Operation): string => {
  const request = `${method} ${paths[target]}${query.length > 0 ? `?${query.join('&')}` : ''}${header ? ` with ${header}` : ''}`
  return `| ${name} | \`${request}\` | ${support} |`
}

const form = '| PostObject | `POST /bucket with multipart/form-data` | supported |'

/** The name of the operation that a request selects, or the code that refuses it. */
function named(method: string, target: string, headers: Record<string, string> = {}, from = operations): string {
  const rawHeaders = ['Host', 's3.example.test', ...Object.entries(headers).flat()]
  const request = signedRequest({ method, target, rawHeaders })
  try {
    return operationOf(from, request, addressOf(request, ['s3.example.test'])).name
  } catch (error) {
    return (error as { code: string }).code
  }
}

test('docs/s3.md has a row for every operation, and no other row', t => {
  const rows = page.split('\n').filter(line => /^\| [A-Z]\w+ \| `/.test(line))
  t.deepEqual([...rows].sort(), [...operations.map(rowOf), form].sort())
  const kinds = rows.map(row => row.split(' | ').at(-1))
  t.deepEqual(kinds, [...kinds].sort().reverse(), 'what is supported comes first')
})

test('docs/s3.md lists every sub-resource that no operation has', t => {
  const used = new Set(operations.flatMap(({ query = [] }) => query))
  const refused = [...subResources].filter(name => !used.has(name)).sort((a, b) => a.localeCompare(b))
  const [, listed = ''] = /^Sub-resources that no row has are `NotImplemented`: (.*)\.$/m.exec(page) ?? []
  t.deepEqual(
    listed.split(', ').map(word => word.replaceAll('`', '')),
    refused,
  )
  t.deepEqual(
    [...used].filter(name => !subResources.has(name)),
    ['list-type'],
    'else the sub-resource of one operation would be ignored by the others',
  )
})

test('each operation is selected by its own request', t => {
  for (const { name, method, target, query = [], header } of operations) {
    const request = `${paths[target]}${query.length > 0 ? `?${query.join('&')}` : ''}`
    t.is(named(method, request, header ? { [header]: 'x' } : {}), name, `${method} ${request}`)
  }
})

test('a sub-resource without an operation is NotImplemented for every method and target', t => {
  const known = (method: string, target: Operation['target'], name: string) =>
    operations.some(one => one.method === method && one.target === target && one.query?.join() === name)
  for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'DELETE'] as const)
    for (const target of ['service', 'bucket', 'object'] as const)
      for (const name of subResources) {
        const isPartRead = name === 'partNumber' && target === 'object' && /GET|HEAD/.test(method)
        if (known(method, target, name) || isPartRead) continue
        const got = named(method, `${paths[target]}?${name}=1`)
        t.is(got, 'NotImplemented', `${method} ${paths[target]}?${name}`)
      }
  t.is(named('GET', '/bucket/key?partNumber=2'), 'GetObject')
  t.is(named('HEAD', '/bucket/key?partNumber=2'), 'HeadObject')
})

test('a request that names two sub-resources is refused, unless one operation has both', t => {
  const cases: Record<string, [method: string, target: string]> = {
    UploadPart: ['PUT', '/b/k?uploadId=x&partNumber=1'],
    NotImplemented: ['PUT', '/b/k?uploadId=x'],
  }
  for (const [expected, [method, target]] of Object.entries(cases)) t.is(named(method, target), expected)
  t.is(named('GET', '/b?acl&policy'), 'NotImplemented')
  t.is(named('PUT', '/b/k?tagging', { 'x-amz-copy-source': 'b/k' }), 'NotImplemented')
  t.is(named('PUT', '/b/k?uploadId=x&partNumber=1', { 'x-amz-copy-source': 'b/k' }), 'UploadPartCopy')
  t.is(named('PUT', '/b/k', { 'x-amz-copy-source': 'b/k' }), 'CopyObject')
  t.is(named('GET', '/b?list-type=2&versions'), 'NotImplemented')
})

test('a method without an operation for its target is refused', t => {
  for (const [method, target] of [
    ['POST', '/'],
    ['PUT', '/'],
    ['POST', '/b/k'],
    ['PATCH', '/b/k'],
  ] as const)
    t.is(named(method, target), 'MethodNotAllowed', `${method} ${target}`)
})

test('of several matching operations the one with the most selectors is chosen, in any order', t => {
  const all = fc.uniqueArray(fc.constantFrom(...operations), {
    minLength: operations.length,
    maxLength: operations.length,
  })
  fc.assert(
    fc.property(all, shuffled => {
      const sorted = bySpecificity(shuffled)
      for (const { name, method, target, query = [], header } of operations) {
        const request = `${paths[target]}?${query.join('&')}`
        t.is(named(method, request, header ? { [header]: 'x' } : {}, sorted), name)
      }
    }),
    { numRuns: 30 },
  )
})
