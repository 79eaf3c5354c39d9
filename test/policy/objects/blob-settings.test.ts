import test from 'ava'
import { blobSettings } from '../../../policy/objects/blob-settings.ts'

const origins = (text: string) => blobSettings({ S3_CORS_ORIGINS: text }).s3.corsOrigins

test('origins are listed by bucket, between spaces or commas', t => {
  const cases: Record<string, Record<string, string[]>> = {
    '': {},
    ' ; ;': {},
    'public=*': { public: ['*'] },
    'public=*;private=https://a.example': { public: ['*'], private: ['https://a.example'] },
    ' public = * ; private = https://a.example, http://b.example:8080  https://c.example ;': {
      public: ['*'],
      private: ['https://a.example', 'http://b.example:8080', 'https://c.example'],
    },
    'my.own-bucket=https://a.example': { 'my.own-bucket': ['https://a.example'] },
  }
  for (const [text, expected] of Object.entries(cases)) t.deepEqual({ ...origins(text) }, expected, text)
  t.deepEqual(blobSettings({}).s3, { extraBuckets: false, corsOrigins: {} })
})

test('origins of another form are refused with the name of the setting', t => {
  const wrong = [
    'public',
    'public=',
    '=https://a.example',
    'Public=*',
    'public=a.example',
    'public=https://a.example/',
    'public=https://a.example/path',
    'public=https://A.example',
    'public=https://a.example:443',
    'public=https://*.example',
    'public=null',
    'public=*; private',
  ]
  for (const text of wrong) t.throws(() => origins(text), { message: /^The setting S3_CORS_ORIGINS is "/ }, text)
})

test('extra buckets are on or off', t => {
  t.true(blobSettings({ S3_EXTRA_BUCKETS: 'on' }).s3.extraBuckets)
  t.false(blobSettings({ S3_EXTRA_BUCKETS: 'off' }).s3.extraBuckets)
  t.throws(() => blobSettings({ S3_EXTRA_BUCKETS: 'yes' }), { message: /S3_EXTRA_BUCKETS/ })
})
