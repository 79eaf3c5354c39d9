import test from 'ava'
import fc from 'fast-check'
import { xmlResult } from '../../../api/s3/xml.ts'
import { childOf, childrenOf, childText, readXml, type XmlElement } from '../../../api/s3/xml-in.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'

const read = (document: string | Uint8Array): XmlElement => readXml(Buffer.from(document as string))
/** The text of `Key` in a document that has this inside of it. */
const keyOf = (inner: string): string | undefined => childText(read(`<Delete><Key>${inner}</Key></Delete>`), 'Key')

test('documents are read as clients send them', t => {
  const namespace = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
  const deletion = read(
    `<?xml version="1.0" encoding="UTF-8"?>\n<Delete ${namespace}><Object><Key>a</Key></Object><Quiet>true</Quiet><Object><Key>b</Key></Object></Delete>\n`,
  )
  t.is(deletion.name, 'Delete')
  t.deepEqual(
    childrenOf(deletion, 'Object').map(object => childText(object, 'Key')),
    ['a', 'b'],
  )
  t.is(childText(deletion, 'Quiet'), 'true')
  t.is(childText(deletion, 'Absent'), undefined)
  t.deepEqual(childrenOf(deletion, 'Absent'), [])

  const tagging = read('<Tagging><TagSet><Tag><Key>k</Key><Value/></Tag></TagSet></Tagging>')
  const tag = childOf(childOf(tagging, 'TagSet')!, 'Tag')!
  t.deepEqual([childText(tag, 'Key'), childText(tag, 'Value')], ['k', ''])
  t.is(childOf(tagging, 'Tag'), undefined, 'not a child of the root')

  const bucket = read(`<CreateBucketConfiguration ${namespace}/>`)
  t.deepEqual(bucket, { name: 'CreateBucketConfiguration', text: '', children: [] })
})

test('an upload of 10,000 parts is read', t => {
  const part = { PartNumber: 10_000, ETag: '"0123456789abcdef0123456789abcdef"', ChecksumCRC64NVME: 'AAAAAAAAAAA=' }
  const document = xmlResult('CompleteMultipartUpload', { Part: Array(10_000).fill(part) })
  const parts = childrenOf(read(document), 'Part')
  t.is(parts.length, 10_000)
  t.is(childText(parts[9999]!, 'ETag'), part.ETag)
})

test('prefixes are removed from names, and attributes are ignored', t => {
  const root = read('<s3:Delete xmlns:s3="urn:x" a="1"><s3:Quiet s3:b="2">true</s3:Quiet><o:Key>k</o:Key></s3:Delete>')
  t.deepEqual(root, {
    name: 'Delete',
    text: '',
    children: [
      { name: 'Quiet', text: 'true', children: [] },
      { name: 'Key', text: 'k', children: [] },
    ],
  })
})

test('a text is exactly what was sent', t => {
  const cases: Record<string, string> = {
    '  a \t b  ': '  a \t b  ',
    '007': '007',
    '1e3': '1e3',
    true: 'true',
    '&lt;a&gt; &amp;amp; &quot;&apos;': '<a> &amp; "\'',
    '&#x1F40E;&#128014;&#233;&#xe9;': '🐎🐎éé',
    '🐎é': '🐎é',
    'a&#13;&#10;&#9;b': 'a\r\n\tb',
    'a<![CDATA[<b>&amp;]] ]]>c': 'a<b>&amp;]] c',
    'a<!-- no text -->b<?nor this?>c': 'abc',
    'a<b>inner</b>c': 'ac',
    // XML folds line ends that are not written as references.
    'a\r\nb\rc': 'a\nb\nc',
    '\ufeff': '\ufeff',
  }
  for (const [inner, text] of Object.entries(cases)) t.is(keyOf(inner), text, inner)
})

test('a byte order mark, blank lines at the end, and the encodings that UTF-8 covers', t => {
  t.is(read('\ufeff<?xml version="1.0" encoding="utf-8" standalone="yes"?><a>é</a>').text, 'é')
  t.is(read('\ufeff<a/>\r\n\r\n<!-- end -->\n').name, 'a')
  for (const encoding of ['UTF-8', 'utf8', 'US-ASCII'])
    t.is(read(`<?xml version='1.0' encoding='${encoding}'?><a/>`).name, 'a', encoding)
})

const utf16 = (document: string) => Buffer.from(`\ufeff${document}`, 'utf16le')
const bomb = `<!DOCTYPE a [<!ENTITY a0 "lol">${Array.from({ length: 9 }, (_, n) => `<!ENTITY a${n + 1} "${`&a${n};`.repeat(10)}">`).join('')}]>`
const million = 1 << 20

const malformed: Record<string, string | Uint8Array> = {
  'no document': '',
  'blanks only': ' \n',
  'a declaration only': '<?xml version="1.0"?>',
  text: 'Delete',
  JSON: '{"Delete":{}}',
  'a billion laughs': `${bomb}<a>&a9;</a>`,
  'a billion laughs that are not used': `${bomb}<a/>`,
  'an external entity': '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
  'a parameter entity': '<!DOCTYPE a [<!ENTITY % x SYSTEM "http://127.0.0.1/x.dtd"> %x;]><a/>',
  'an external DTD': '<!DOCTYPE a SYSTEM "http://127.0.0.1/x.dtd"><a/>',
  'an empty DOCTYPE': '<!DOCTYPE a><a/>',
  'a DOCTYPE that does not end': '<!DOCTYPE a [<a/>',
  'an unknown entity': '<a>&nbsp;</a>',
  'an entity of objects': '<a>&constructor;&__proto__;&toString;</a>',
  'a reference without its end': '<a>&#65</a>',
  'an ampersand': '<a>b & c</a>',
  NUL: '<a>\0</a>',
  'NUL as a reference': '<a>&#0;</a>',
  'a control character': '<a>\x01</a>',
  'a control character as a reference': '<a>&#1;</a>',
  'a surrogate as a reference': '<a>&#xD800;</a>',
  'a character beyond Unicode': '<a>&#x110000;</a>',
  'a number without end': `<a>&#${'9'.repeat(400)};</a>`,
  'U+FFFF': '<a>\uffff</a>',
  'the end of CDATA alone': '<a>]]></a>',
  'a closing tag too few': '<a><b></b>',
  'a closing tag too many': '<a></a></b>',
  'crossed tags': '<a><b></a></b>',
  'tags in another case': '<Delete></delete>',
  'two roots': '<a/><a/>',
  'text after the root': '<a/>x',
  'text before the root': 'x<a/>',
  'a declaration after a blank': ' <?xml version="1.0"?><a/>',
  'two byte order marks': '\ufeff\ufeff<a/>',
  'an attribute twice': '<a b="1" b="2"/>',
  'an attribute without quotes': '<a b=1/>',
  'a tag in an attribute': '<a b="<"/>',
  'a name that begins with a digit': '<1/>',
  'a comment with two dashes': '<a><!-- -- --></a>',
  'XML 2.0': '<?xml version="2.0"?><a/>',
  'a byte that is no UTF-8': Buffer.from('<a>é</a>', 'latin1'),
  'an overlong sequence': Buffer.concat([Buffer.from('<a>'), Buffer.of(0xc0, 0xbc), Buffer.from('</a>')]),
  'a surrogate in UTF-8': Buffer.concat([Buffer.from('<a>'), Buffer.of(0xed, 0xa0, 0x80), Buffer.from('</a>')]),
  'a sequence that is cut off': Buffer.concat([Buffer.from('<a/>'), Buffer.of(0xc3)]),
  'UTF-16': utf16('<a/>'),
  'UTF-16 without its mark': utf16('<a/>').subarray(2),
  'UTF-16 as declared': '<?xml version="1.0" encoding="UTF-16"?><a/>',
  'Latin-1 as declared': Buffer.from('<?xml version="1.0" encoding="ISO-8859-1"?><a>é</a>', 'latin1'),
  'Latin-1 as declared, in ASCII': '<?xml version="1.0" encoding="ISO-8859-1"?><a/>',
  'UTF-7 as declared': '<?xml version="1.0" encoding="UTF-7"?><a>+ADw-</a>',
  'nine levels': `${'<a>'.repeat(9)}${'</a>'.repeat(9)}`,
  'a million levels': '<a>'.repeat(million),
  '60,001 elements': `<a>${'<b/>'.repeat(60_000)}</a>`,
}

for (const [what, document] of Object.entries(malformed))
  test(`refused: ${what}`, t => {
    t.throws(() => read(document), { instanceOf: S3Error, code: 'MalformedXML' })
  })

test('8 levels and 60,000 elements are allowed', t => {
  t.is(read(`${'<a>'.repeat(8)}${'</a>'.repeat(8)}`).name, 'a')
  t.is(read(`<a>${'<b/>'.repeat(59_999)}</a>`).children.length, 59_999)
})

test('a document that is cut off anywhere is refused', t => {
  const document = Buffer.from(
    '<?xml version="1.0"?><!-- é --><Delete><Object a="b"><Key>&amp;<![CDATA[🐎]]>&#233;</Key></Object></Delete>',
  )
  t.is(readXml(document).name, 'Delete')
  for (let length = 0; length < document.length; length++)
    t.throws(() => readXml(document.subarray(0, length)), { code: 'MalformedXML' }, String(length))
})

test('elements named like properties of Object.prototype are ordinary elements', t => {
  const root = read(
    '<__proto__ __proto__="x"><constructor>1</constructor><toString/><__proto__>2</__proto__></__proto__>',
  )
  t.is(root.name, '__proto__')
  t.is(childText(root, '__proto__'), '2')
  t.is(childText(root, 'constructor'), '1')
  t.is(childText(read('<a/>'), 'toString'), undefined)
  t.deepEqual(Object.keys(Object.prototype), [])
  t.is(Object.getPrototypeOf(root), Object.prototype)
})

test('the slowest documents of 1 MiB take less than 3 seconds', t => {
  const full = (text: string) => text.repeat(million / text.length)
  const numbered = (count: number, text: (n: number) => string) =>
    Array.from({ length: count }, (_, n) => text(n)).join(' ')
  const slow: Record<string, string> = {
    references: `<a>${full('&amp;')}</a>`,
    'one reference': `<a>&${full('a')};</a>`,
    'a number': `<a>&#${full('1')};</a>`,
    'a name': `<${full('a')}/>`,
    attributes: `<a ${numbered(90_000, n => `b${n}=""`)}/>`,
    'a long namespace of many attributes': `<a xmlns:n="${full('x').slice(million / 2)}" ${numbered(45_000, n => `n:b${n}=""`)}/>`,
    'sections of CDATA': `<a>${full('<![CDATA[]]>')}</a>`,
    'brackets in CDATA': `<a><![CDATA[${full(']')}]]></a>`,
    comments: `<a>${full('<!---->')}</a>`,
    dashes: `<a><!--${full('- ')}--></a>`,
    instructions: `<a>${full('<?b?>')}</a>`,
    'carriage returns': `<a>${full('\r')}</a>`,
    'quotes in a DTD': `<!DOCTYPE a [${full('"')}]><a/>`,
    'texts between elements': `<a>${'<b/>x'.repeat(49_999)}</a>`,
  }
  for (const [what, document] of Object.entries(slow)) {
    const from = process.cpuUsage()
    t.notThrows(() => settled(Buffer.from(document)), what)
    const { user, system } = process.cpuUsage(from)
    t.true(user + system < 3_000_000, `${what}: ${(user + system) / 1000} ms`)
  }
})

/** The root, or null for a document that was refused; throws any error but an S3Error. */
function settled(body: Buffer): XmlElement | null {
  try {
    return readXml(body)
  } catch (error) {
    if (error instanceof S3Error && error.code === 'MalformedXML') return null
    throw error
  }
}

const fragments = fc.constantFrom(
  ...[
    '<a>',
    '</a>',
    '<b/>',
    '<',
    '>',
    '/',
    '&',
    ';',
    '&amp;',
    '&#',
    'x41;',
    '<![CDATA[',
    ']]>',
    '<!--',
    '-->',
    '<?',
    '?>',
  ],
  ...[
    '<?xml version="1.0"',
    ' encoding="',
    '"',
    "'",
    '=',
    '<!DOCTYPE',
    '[',
    ']',
    '<!ENTITY',
    ':',
    'xmlns:',
    '__proto__',
    '\ufeff',
    '\r',
    '🐎',
  ],
)

test('any bytes are read, or refused as MalformedXML', t => {
  const almost = fc.array(fc.oneof(fragments, fc.string({ maxLength: 3, unit: 'binary' })), { maxLength: 30 })
  const bodies = fc.oneof(
    fc.uint8Array({ maxLength: 200 }).map(bytes => Buffer.from(bytes)),
    almost.map(pieces => Buffer.from(pieces.join(''))),
    almost.map(pieces => Buffer.from(`<a>${pieces.join('')}</a>`)),
  )
  const property = fc.property(bodies, body => {
    const root = settled(body)
    if (root) t.is(typeof root.name, 'string')
  })
  fc.assert(property, { numRuns: 5000, interruptAfterTimeLimit: 60_000, markInterruptAsFailure: true })
  t.pass()
})

test('a document that xmlResult writes is read back unchanged', t => {
  const text = fc.string({ unit: 'grapheme' }).filter(one => !/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/.test(one))
  const property = fc.property(fc.array(text), keys => {
    const root = read(xmlResult('Delete', { Object: keys.map(Key => ({ Key })) }))
    t.deepEqual(
      childrenOf(root, 'Object').map(object => childText(object, 'Key')),
      keys,
    )
  })
  fc.assert(property, { numRuns: 500 })
  t.pass()
})
