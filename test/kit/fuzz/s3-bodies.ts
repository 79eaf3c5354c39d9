import fc from 'fast-check'

/** Values of headers, parameters and fields. */
export const oddValues = [
  '',
  '*',
  '0',
  '-1',
  '1',
  '2',
  '1e9',
  '99999999999999999999',
  'NaN',
  'url',
  'true',
  'null',
  'bytes=0-0',
  'bytes=-1',
  'bytes=5-2',
  'REPLACE',
  'COPY',
  'ENABLED',
  'CRC32',
  'CRC64NVME',
  'COMPOSITE',
  'private',
  'public-read',
  'a=b&c=d',
  'a=%00',
  '%',
  '%zz',
  '%00',
  '+',
  '100-continue',
  'chunked',
  'gzip, aws-chunked',
  '=?UTF-8?B?AA==?=',
  '=?UTF-8?Q?=0D=0AX: y?=',
  'AAAAAA==',
  'Wed, 21 Oct 2037 07:28:00 GMT',
  'text/html; charset=utf-7',
  'attachment; filename="\xc3\xa9\xe2\x82\xac.txt"',
  '\xff\xfe',
  'caf\xc3\xa0 b',
  'a'.repeat(3000),
  'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
  'STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD',
  'UNSIGNED-PAYLOAD',
]

const tokens = fc.constantFrom(
  ...[
    '<Delete>',
    '</Delete>',
    '<Object>',
    '</Object>',
    '<Key>',
    '</Key>',
    '<Quiet>true</Quiet>',
    '<VersionId>null</VersionId>',
  ],
  ...[
    '<CompleteMultipartUpload>',
    '</CompleteMultipartUpload>',
    '<Part>',
    '</Part>',
    '<PartNumber>1</PartNumber>',
    '<ETag>"a"</ETag>',
  ],
  ...[
    '<Tagging>',
    '</Tagging>',
    '<TagSet>',
    '</TagSet>',
    '<Tag>',
    '</Tag>',
    '<Value>v</Value>',
    '<Key>k</Key>',
    '<ETag/>',
  ],
  ...[
    '<!DOCTYPE a [<!ENTITY b "c">]>',
    '<![CDATA[x]]>',
    '<!-- -->',
    '<?xml version="1.1"?>',
    '&amp;',
    '&b;',
    '&#0;',
    '&#xD800;',
  ],
  ...['\0', '\ufeff', ' ', 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', '<a b="c" b="d">', ']]>', '<a:b/>'],
)

/** Documents that are almost what an operation expects. */
export const documents: fc.Arbitrary<Buffer> = fc.oneof(
  fc.array(tokens, { maxLength: 12 }).map(pieces => Buffer.from(pieces.join(''))),
  fc
    .tuple(fc.constantFrom('Delete', 'CompleteMultipartUpload', 'Tagging'), fc.array(tokens, { maxLength: 8 }))
    .map(([root, pieces]) => Buffer.from(`<${root}>${pieces.join('')}</${root}>`)),
  fc.array(fc.tuple(fc.string({ unit: 'binary', maxLength: 20 }), fc.boolean()), { maxLength: 4 }).map(keys => {
    const objects = keys.map(([key, isData]) => `<Object><Key>${isData ? `<![CDATA[${key}]]>` : key}</Key></Object>`)
    return Buffer.from(`<Delete>${objects.join('')}</Delete>`)
  }),
)

/** A change of bytes: some are replaced by others. */
export interface Cut {
  at: number
  length: number
  by: Buffer
}

export const cuts: fc.Arbitrary<Cut> = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.integer({ min: 0, max: 4 }),
  by: fc.oneof(
    fc.uint8Array({ maxLength: 4 }).map(bytes => Buffer.from(bytes)),
    fc.constantFrom('\r\n', '\r\n\r\n', '0', '0\r\n\r\n', ';', '--', 'ffffffff', '\0').map(text => Buffer.from(text)),
  ),
})

export function cutAt(bytes: Buffer, { at, length, by }: Cut): Buffer {
  const from = Math.floor(at * bytes.length)
  return Buffer.concat([bytes.subarray(0, from), by, bytes.subarray(from + length)])
}

/** Fields of a form, some of which no object can have. */
export const formFields: fc.Arbitrary<[name: string, value: string][]> = fc
  .array(
    fc.tuple(
      fc.oneof(
        fc.constantFrom(
          ...'acl tagging content-type content-disposition cache-control expires success_action_status'.split(' '),
        ),
        fc.constantFrom(
          ...'success_action_redirect redirect x-amz-meta-a x-amz-meta-__proto__ x-amz-storage-class'.split(' '),
        ),
        fc.constantFrom(
          ...'x-amz-checksum-crc32 content-md5 x-amz-tagging x-ignore-a Content-Encoding if-none-match'.split(' '),
        ),
        fc.string({ unit: 'binary', maxLength: 6 }).map(text => `x-amz-meta-${text.replace(/["\r\n\\]/g, '')}`),
      ),
      fc.oneof(
        {
          weight: 2,
          arbitrary: fc.constantFrom(
            'a',
            'text/plain',
            'attachment; filename="b c"',
            'no-cache',
            'max-age=60, private',
          ),
        },
        fc.constantFrom(...oddValues.filter(value => !/[\x80-\xff]/.test(value))),
        fc.constantFrom(
          '201',
          '200',
          'http://x.test/a b',
          'javascript:alert(1)',
          'a\r\nb: c',
          'a\0b',
          'text/html',
          'é€',
          // biome-ignore lint/suspicious/noTemplateCurlyInString: so it is in forms
          '${filename}',
        ),
        fc.string({ unit: 'binary', maxLength: 8 }).map(text => text),
      ),
    ),
    { maxLength: 2 },
  )
  .map(fields => [
    ...new Map(fields.map(([name, value]) => [name.toLowerCase(), [name, value] as [string, string]])).values(),
  ])
