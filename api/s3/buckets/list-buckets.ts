import { listS3Buckets } from '../../../db/objects/s3-buckets.ts'
import { s3Buckets, s3Region } from '../../../policy/objects/s3-credentials.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { ownerElements, xmlReply } from '../answers.ts'
import { type Operation, queryOf } from '../operation.ts'

export const listBuckets: Operation = {
  name: 'ListBuckets',
  method: 'GET',
  target: 'service',
  support: 'supported',
  needs: 'read',
  async handle(call, { db, config }) {
    const { user } = call.caller
    const extra = config.blob.s3.extraBuckets ? await listS3Buckets(db, user.id) : []
    const fixed = s3Buckets.map(name => ({ name, created_at: user.created_at }))
    const prefix = queryOf(call, 'prefix') ?? ''
    const after = queryOf(call, 'continuation-token') ?? ''
    const max = Number(queryOf(call, 'max-buckets') ?? 10_000)
    if (!Number.isInteger(max) || max < 1)
      throw new S3Error('InvalidArgument', 'max-buckets must be a whole number from 1 on.')
    const all = [...fixed, ...extra].sort((a, b) => (a.name < b.name ? -1 : 1))
    const matching = all.filter(({ name }) => name.startsWith(prefix) && name > after)
    const page = matching.slice(0, max)
    return xmlReply('ListAllMyBucketsResult', {
      Owner: ownerElements(call.caller),
      Buckets: {
        Bucket: page.map(({ name, created_at }) => ({ Name: name, CreationDate: created_at, BucketRegion: s3Region })),
      },
      ContinuationToken: matching.length > page.length ? page.at(-1)?.name : undefined,
      Prefix: prefix === '' ? undefined : prefix,
    })
  },
}
