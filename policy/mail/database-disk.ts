import type { MailTemplate } from './template.ts'

/** A database whose disk is nearly full. */
export type DatabaseDisk = { database: string; usedMb: number; limitMb: number; percent: number }

export const databaseDisk: MailTemplate<DatabaseDisk> = {
  'pt-BR': ({ database, usedMb, limitMb, percent }) => ({
    subject: `O disco do banco de dados ${database} está ${percent}% cheio`,
    text: `Os dados do seu banco de dados "${database}" ocupam ${usedMb} MB dos ${limitMb} MB do disco (${percent}%).

Quando o disco estiver cheio, o banco não aceita mais gravações. Para evitar isso, apague dados, ou dê mais memória a ele: com ela vem mais disco.`,
  }),
  'en-US': ({ database, usedMb, limitMb, percent }) => ({
    subject: `The disk of the database ${database} is ${percent}% full`,
    text: `The data of your database "${database}" take ${usedMb} MB of the ${limitMb} MB of its disk (${percent}%).

When the disk is full, the database accepts no more writes. To prevent this, delete data, or give it more memory, which comes with more disk.`,
  }),
  'es-ES': ({ database, usedMb, limitMb, percent }) => ({
    subject: `El disco de la base de datos ${database} está lleno al ${percent} %`,
    text: `Los datos de tu base de datos «${database}» ocupan ${usedMb} MB de los ${limitMb} MB de su disco (${percent} %).

Cuando el disco se llene, la base de datos ya no acepta escrituras. Para evitarlo, borra datos, o dale más memoria: con ella recibe más disco.`,
  }),
  'zh-CN': ({ database, usedMb, limitMb, percent }) => ({
    subject: `数据库 ${database} 的磁盘已使用 ${percent}%`,
    text: `您的数据库“${database}”的磁盘共有 ${limitMb} MB，数据已占用 ${usedMb} MB（${percent}%）。

磁盘写满后，数据库将不再接受写入。为避免这种情况，请删除数据，或者为其增加内存：磁盘空间会随之增加。`,
  }),
  'ja-JP': ({ database, usedMb, limitMb, percent }) => ({
    subject: `データベース ${database} のディスク使用率が ${percent}% に達しています`,
    text: `データベース「${database}」のデータは、ディスク ${limitMb} MB のうち ${usedMb} MB（${percent}%）を占めています。

ディスクがいっぱいになると、データベースは書き込みを受け付けなくなります。これを防ぐには、データを削除するか、メモリを増やしてください。メモリとともにディスクも増えます。`,
  }),
  'fr-FR': ({ database, usedMb, limitMb, percent }) => ({
    subject: `Le disque de la base de données ${database} est plein à ${percent} %`,
    text: `Les données de votre base de données « ${database} » occupent ${usedMb} Mo des ${limitMb} Mo de son disque (${percent} %).

Une fois le disque plein, la base de données n'accepte plus d'écritures. Pour l'éviter, supprimez des données, ou donnez-lui plus de mémoire : son disque augmente avec elle.`,
  }),
  'de-DE': ({ database, usedMb, limitMb, percent }) => ({
    subject: `Die Festplatte der Datenbank ${database} ist zu ${percent} % voll`,
    text: `Die Daten Ihrer Datenbank „${database}“ belegen ${usedMb} MB von ${limitMb} MB ihrer Festplatte (${percent} %).

Ist die Festplatte voll, nimmt die Datenbank keine Schreibzugriffe mehr an. Um das zu verhindern, löschen Sie Daten, oder geben Sie ihr mehr Arbeitsspeicher: Damit wird auch die Festplatte größer.`,
  }),
  'it-IT': ({ database, usedMb, limitMb, percent }) => ({
    subject: `Il disco del database ${database} è pieno al ${percent}%`,
    text: `I dati del tuo database "${database}" occupano ${usedMb} MB dei ${limitMb} MB del suo disco (${percent}%).

Quando il disco è pieno, il database non accetta più scritture. Per evitarlo, elimina dei dati, oppure assegnagli più memoria: con essa aumenta anche il disco.`,
  }),
}
