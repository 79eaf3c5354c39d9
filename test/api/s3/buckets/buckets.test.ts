import { CreateBucketCommand, HeadBucketCommand, ListBucketsCommand } from '@aws-sdk/client-s3'
import test from 'ava'
import { operations } from '../../../../api/s3/operations.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { elementsOf, refusal, s3Account } from '../../../kit/s3/account.ts'
import { elementOf } from '../../../kit/s3/wire.ts'

const api = testApi()
const fixed = ['legacy', 'private', 'public']

test('every account has the three buckets, which are listed in pages', async t => {
  const ana = await s3Account(api())
  const { Buckets, Owner } = await ana.send(new ListBucketsCommand({}))
  t.deepEqual(
    Buckets?.map(({ Name }) => Name),
    fixed,
  )
  t.is(Owner?.ID, ana.user.id)
  t.true(Buckets!.every(({ CreationDate, BucketRegion }) => CreationDate instanceof Date && BucketRegion === 'auto'))
  const found: string[] = []
  for (let ContinuationToken: string | undefined, n = 0; n < 5; n++) {
    const page = await ana.send(new ListBucketsCommand({ MaxBuckets: 1, ContinuationToken }))
    found.push(...page.Buckets!.map(({ Name }) => Name!))
    ContinuationToken = page.ContinuationToken
    if (ContinuationToken === undefined) break
  }
  t.deepEqual(found, fixed)
  t.deepEqual(elementsOf((await ana.wire.send('GET', '/?prefix=p')).text, 'Name'), ['private', 'public'])
  for (const max of ['0', '-1', 'abc', '1.5'])
    t.is((await ana.wire.send('GET', `/?max-buckets=${max}`)).code, 'InvalidArgument', max)
})

test('HeadBucket names the region, and answers without a body about an unknown bucket', async t => {
  const ana = await s3Account(api())
  for (const Bucket of fixed) t.is((await ana.send(new HeadBucketCommand({ Bucket }))).BucketRegion, 'auto')
  const unknown = await ana.wire.send('HEAD', '/unknown')
  t.deepEqual([unknown.status, unknown.bytes.length], [404, 0])
  t.truthy(unknown.headers['x-amz-request-id'])
  const got = await ana.wire.send('GET', '/unknown?location')
  t.deepEqual([got.status, got.code, elementOf(got, 'BucketName')], [404, 'NoSuchBucket', 'unknown'])
})

test('the location is an empty element, which every client can sign for', async t => {
  const ana = await s3Account(api())
  const { text } = await ana.wire.send('GET', '/private?location')
  t.regex(text, /<LocationConstraint xmlns="http:\/\/s3.amazonaws.com\/doc\/2006-03-01\/"><\/LocationConstraint>$/)
})

/** What S3 answers while a feature is off: the root of a document, or a code. */
const answersWhenOff: Record<string, [status: number, rootOrCode: string, contains?: string]> = {
  GetBucketAccelerateConfiguration: [200, 'AccelerateConfiguration'],
  GetBucketAcl: [200, 'AccessControlPolicy', '<Permission>FULL_CONTROL</Permission>'],
  GetBucketEncryption: [404, 'ServerSideEncryptionConfigurationNotFoundError'],
  GetBucketLifecycleConfiguration: [404, 'NoSuchLifecycleConfiguration'],
  GetBucketLogging: [200, 'BucketLoggingStatus'],
  GetBucketNotificationConfiguration: [200, 'NotificationConfiguration'],
  GetBucketOwnershipControls: [200, 'OwnershipControls', '<ObjectOwnership>BucketOwnerEnforced</ObjectOwnership>'],
  GetBucketPolicy: [404, 'NoSuchBucketPolicy'],
  GetBucketPolicyStatus: [200, 'PolicyStatus', '<IsPublic>false</IsPublic>'],
  GetBucketReplication: [404, 'ReplicationConfigurationNotFoundError'],
  GetBucketRequestPayment: [200, 'RequestPaymentConfiguration', '<Payer>BucketOwner</Payer>'],
  GetBucketTagging: [404, 'NoSuchTagSet'],
  GetBucketVersioning: [200, 'VersioningConfiguration'],
  GetBucketWebsite: [404, 'NoSuchWebsiteConfiguration'],
  GetObjectAcl: [200, 'AccessControlPolicy'],
  GetObjectLegalHold: [404, 'NoSuchObjectLockConfiguration'],
  GetObjectLockConfiguration: [404, 'ObjectLockConfigurationNotFoundError'],
  GetObjectRetention: [404, 'NoSuchObjectLockConfiguration'],
  GetPublicAccessBlock: [404, 'NoSuchPublicAccessBlockConfiguration'],
  PutBucketAcl: [400, 'AccessControlListNotSupported'],
  PutObjectAcl: [400, 'AccessControlListNotSupported'],
}

test('a feature that is off answers as S3 does when it is off', async t => {
  const ana = await s3Account(api())
  await ana.wire.send('PUT', '/private/key', { body: 'x' })
  const off = operations.filter(({ support }) => support === 'off')
  t.deepEqual(off.map(({ name }) => name).sort(), Object.keys(answersWhenOff).sort())
  for (const { name, method, target, query } of off) {
    const [status, expected, contains = ''] = answersWhenOff[name]!
    const headers: Record<string, string> = method === 'PUT' ? { 'x-amz-acl': 'public-read' } : {}
    const answer = await ana.wire.send(method, `/private${target === 'object' ? '/key' : ''}?${query}`, { headers })
    const root = /\?>\n<(\w+)/.exec(answer.text)?.[1]
    t.deepEqual([answer.status, answer.code ?? root], [status, expected], name)
    t.true(answer.text.includes(contains), answer.text)
    const elsewhere = await ana.wire.send(method, `/unknown${target === 'object' ? '/key' : ''}?${query}`)
    t.is(elsewhere.code, 'NoSuchBucket', name)
  }
  const open = await ana.wire.send('GET', '/public?policyStatus')
  t.is(elementOf(open, 'IsPublic'), 'true')
  t.true((await ana.wire.send('GET', '/public?acl')).text.includes('global/AllUsers'))
})

test('every other sub-resource is not implemented, and changes nothing', async t => {
  const ana = await s3Account(api())
  for (const [method, target] of [
    ['PUT', '/private?versioning'],
    ['PUT', '/private?policy'],
    ['DELETE', '/private?lifecycle'],
    ['GET', '/private?analytics'],
    ['POST', '/private/key?select'],
    ['POST', '/private/key?restore'],
    ['GET', '/private/key?torrent'],
    ['PUT', '/private/key?retention'],
    ['PUT', '/private/key?uploadId=x'],
  ] as const) {
    const answer = await ana.wire.send(method, target, { body: method === 'PUT' ? 'x' : '' })
    t.deepEqual([answer.status, answer.code], [501, 'NotImplemented'], target)
  }
  t.deepEqual(await api().db('objects').where({ owner_id: ana.user.id }), [])
})

test('without S3_EXTRA_BUCKETS there are no extra buckets', async t => {
  const ana = await s3Account(api())
  t.is(await refusal(ana.send(new CreateBucketCommand({ Bucket: 'further' }))), 'AccessDenied')
  for (const Bucket of fixed.slice(1))
    t.is(await refusal(ana.send(new CreateBucketCommand({ Bucket }))), 'BucketAlreadyOwnedByYou')
  t.is((await ana.wire.send('DELETE', '/private')).code, 'AccessDenied')
  t.is((await ana.wire.send('DELETE', '/further')).code, 'NoSuchBucket')
  await api().db('s3_buckets').insert({ owner_id: ana.user.id, name: 'earlier' })
  t.is((await ana.wire.send('GET', '/earlier')).code, 'NoSuchBucket', 'from when the setting was on')
  t.deepEqual(elementsOf((await ana.wire.send('GET', '/')).text, 'Name'), fixed)
})
