import { type MailFields, type MailTemplate, mailLocales } from './template.ts'

/** Several without a good snapshot: their names, each with its days in parentheses, or the first of them, and their number. */
type Several = { unsaved: string; unsavedCount: number }

/** An application without a good snapshot for some days. */
type UnsavedApp = { app: string; days: number }

const oneApp: MailTemplate<UnsavedApp> = {
  'pt-BR': ({ app, days }) => ({
    subject: `Faltam snapshots de ${app}`,
    text: `Há ${days} dias nenhum snapshot da sua aplicação "${app}" é concluído.

A aplicação em si não é afetada, e o Berth continua tentando. Se ela tiver centenas de milhares de arquivos, apague os que não forem necessários; se reescrever grandes arquivos o tempo todo, grave menos ou pare-a por um momento. Em outros casos, fale com o suporte. Até lá, faça você mesmo uma cópia dos arquivos importantes.`,
  }),
  'en-US': ({ app, days }) => ({
    subject: `Snapshots of ${app} are missing`,
    text: `For ${days} days, no snapshot of your application "${app}" has been completed.

The application itself is not affected, and Berth keeps retrying. If it has hundreds of thousands of files, delete those that it does not need; if it constantly rewrites large files, let it write less, or stop it for a while. Otherwise contact support. Until then, download the files that matter to you yourself.`,
  }),
  'es-ES': ({ app, days }) => ({
    subject: `Faltan snapshots de ${app}`,
    text: `Desde hace ${days} días no se completa ningún snapshot de tu aplicación «${app}».

La aplicación en sí no está afectada, y se sigue intentando. Si tiene cientos de miles de archivos, borra los que no necesite; si reescribe archivos grandes sin parar, haz que escriba menos o detenla un rato. Si no, contacta con el soporte. Hasta entonces, haz tú una copia de los archivos importantes.`,
  }),
  'zh-CN': ({ app, days }) => ({
    subject: `${app} 缺少快照`,
    text: `您的应用“${app}”已有 ${days} 天未能成功创建快照。

应用本身不受影响，系统会继续尝试。如果应用有数十万个文件，请删除不需要的文件；如果它不断改写大文件，请减少写入或暂时停止应用。其他情况请联系支持人员。在此之前，请自行备份重要文件。`,
  }),
  'ja-JP': ({ app, days }) => ({
    subject: `${app} のスナップショットが作成できていません`,
    text: `${days} 日間、アプリケーション「${app}」のスナップショットが完了していません。

アプリケーション自体に影響はなく、Berth は引き続き作成を試みます。ファイルが数十万個ある場合は、不要なものを削除してください。大きなファイルを常に書き換えている場合は、書き込みを減らすか、しばらく停止してください。それ以外の場合はサポートにご連絡ください。それまでは、大切なファイルをご自身でバックアップしてください。`,
  }),
  'fr-FR': ({ app, days }) => ({
    subject: `Il manque des instantanés de ${app}`,
    text: `Depuis ${days} jours, aucun instantané de votre application « ${app} » n'a abouti.

L'application elle-même n'est pas touchée, et les essais continuent. Si elle a des centaines de milliers de fichiers, supprimez ceux qui sont inutiles ; si elle réécrit sans cesse de gros fichiers, faites-la écrire moins ou arrêtez-la un moment. Sinon, contactez le support. D'ici là, sauvegardez vous-même les fichiers importants.`,
  }),
  'de-DE': ({ app, days }) => ({
    subject: `${app} fehlen Snapshots`,
    text: `Seit ${days} Tagen ist kein Snapshot Ihrer Anwendung „${app}“ gelungen.

Die Anwendung selbst ist nicht betroffen, und Berth versucht es weiter. Hat sie Hunderttausende Dateien, löschen Sie die, die sie nicht braucht; schreibt sie ständig große Dateien neu, lassen Sie sie weniger schreiben, oder halten Sie sie eine Weile an. Andernfalls wenden Sie sich an den Support. Sichern Sie bis dahin wichtige Dateien selbst.`,
  }),
  'it-IT': ({ app, days }) => ({
    subject: `Mancano snapshot di ${app}`,
    text: `Da ${days} giorni nessuno snapshot della tua applicazione "${app}" viene completato.

L'applicazione in sé non è interessata, e i tentativi continuano. Se ha centinaia di migliaia di file, elimina quelli che non servono; se riscrive di continuo file grandi, falla scrivere meno o fermala per un po'. Altrimenti contatta l'assistenza. Fino ad allora, salva tu i file importanti.`,
  }),
}

/** A database without a good snapshot for some days. */
type UnsavedDatabase = { database: string; days: number }

const oneDatabase: MailTemplate<UnsavedDatabase> = {
  'pt-BR': ({ database, days }) => ({
    subject: `Faltam snapshots do banco de dados ${database}`,
    text: `Há ${days} dias nenhum snapshot do seu banco de dados "${database}" é concluído.

O banco de dados em si não é afetado, e o Berth continua tentando. Se ele estiver parado por um erro, ou sem espaço em disco, resolva isso primeiro; se não, fale com o suporte. Até lá, faça você mesmo uma cópia dos dados importantes.`,
  }),
  'en-US': ({ database, days }) => ({
    subject: `Snapshots of the database ${database} are missing`,
    text: `For ${days} days, no snapshot of your database "${database}" has been completed.

The database itself is not affected, and Berth keeps retrying. If it is down because of an error, or has no disk space left, resolve that first; otherwise contact support. Until then, export the data that matter to you yourself.`,
  }),
  'es-ES': ({ database, days }) => ({
    subject: `Faltan snapshots de la base de datos ${database}`,
    text: `Desde hace ${days} días no se completa ningún snapshot de tu base de datos «${database}».

La base de datos en sí no está afectada, y se sigue intentando. Si está detenida por un error, o no le queda espacio en disco, resuélvelo primero; si no, contacta con el soporte. Hasta entonces, haz tú una copia de los datos importantes.`,
  }),
  'zh-CN': ({ database, days }) => ({
    subject: `数据库 ${database} 缺少快照`,
    text: `您的数据库“${database}”已有 ${days} 天未能成功创建快照。

数据库本身不受影响，系统会继续尝试。如果数据库因错误停止运行，或者磁盘空间已满，请先解决该问题；否则请联系支持人员。在此之前，请自行备份重要数据。`,
  }),
  'ja-JP': ({ database, days }) => ({
    subject: `データベース ${database} のスナップショットが作成できていません`,
    text: `${days} 日間、データベース「${database}」のスナップショットが完了していません。

データベース自体に影響はなく、Berth は引き続き作成を試みます。エラーで停止している場合やディスクの空きがない場合は、先にそれを解決してください。それ以外の場合はサポートにご連絡ください。それまでは、大切なデータをご自身でバックアップしてください。`,
  }),
  'fr-FR': ({ database, days }) => ({
    subject: `Il manque des instantanés de la base de données ${database}`,
    text: `Depuis ${days} jours, aucun instantané de votre base de données « ${database} » n'a abouti.

La base de données elle-même n'est pas touchée, et les essais continuent. Si elle est à l'arrêt à cause d'une erreur, ou si son disque est plein, réglez cela d'abord ; sinon, contactez le support. D'ici là, sauvegardez vous-même les données importantes.`,
  }),
  'de-DE': ({ database, days }) => ({
    subject: `Der Datenbank ${database} fehlen Snapshots`,
    text: `Seit ${days} Tagen ist kein Snapshot Ihrer Datenbank „${database}“ gelungen.

Die Datenbank selbst ist nicht betroffen, und Berth versucht es weiter. Steht sie wegen eines Fehlers still, oder ist ihre Festplatte voll, beheben Sie das zuerst; andernfalls wenden Sie sich an den Support. Sichern Sie bis dahin wichtige Daten selbst.`,
  }),
  'it-IT': ({ database, days }) => ({
    subject: `Mancano snapshot del database ${database}`,
    text: `Da ${days} giorni nessuno snapshot del tuo database "${database}" viene completato.

Il database in sé non è interessato, e i tentativi continuano. Se è fermo per un errore, o non ha più spazio su disco, risolvi prima questo; altrimenti contatta l'assistenza. Fino ad allora, esporta tu i dati importanti.`,
  }),
}

const severalApps: MailTemplate<Several> = {
  'pt-BR': ({ unsaved, unsavedCount }) => ({
    subject: `Faltam snapshots de ${unsavedCount} aplicações`,
    text: `Nenhum snapshot de ${unsavedCount} das suas aplicações é concluído há dias (o número de dias está entre parênteses): ${unsaved}.

As aplicações em si não são afetadas, e o Berth continua tentando. Se elas tiverem centenas de milhares de arquivos, apague os que não forem necessários; se reescreverem grandes arquivos o tempo todo, faça com que gravem menos ou pare-as por um momento. Em outros casos, fale com o suporte. Até lá, faça você mesmo uma cópia dos arquivos importantes.`,
  }),
  'en-US': ({ unsaved, unsavedCount }) => ({
    subject: `Snapshots of ${unsavedCount} applications are missing`,
    text: `No snapshot of ${unsavedCount} of your applications has been completed for days (their number is in parentheses): ${unsaved}.

The applications themselves are not affected, and Berth keeps retrying. If they have hundreds of thousands of files, delete those that they do not need; if they constantly rewrite large files, let them write less, or stop them for a while. Otherwise contact support. Until then, download the files that matter to you yourself.`,
  }),
  'es-ES': ({ unsaved, unsavedCount }) => ({
    subject: `Faltan snapshots de ${unsavedCount} aplicaciones`,
    text: `Desde hace días no se completa ningún snapshot de ${unsavedCount} de tus aplicaciones (entre paréntesis, el número de días): ${unsaved}.

Las aplicaciones en sí no están afectadas, y se sigue intentando. Si tienen cientos de miles de archivos, borra los que no necesiten; si reescriben archivos grandes sin parar, haz que escriban menos o detenlas un rato. Si no, contacta con el soporte. Hasta entonces, haz tú una copia de los archivos importantes.`,
  }),
  'zh-CN': ({ unsaved, unsavedCount }) => ({
    subject: `${unsavedCount} 个应用缺少快照`,
    text: `您的 ${unsavedCount} 个应用已有数天未能成功创建快照（括号内为天数）：${unsaved}。

这些应用本身不受影响，系统会继续尝试。如果应用有数十万个文件，请删除不需要的文件；如果它们不断改写大文件，请减少写入或暂时停止应用。其他情况请联系支持人员。在此之前，请自行备份重要文件。`,
  }),
  'ja-JP': ({ unsaved, unsavedCount }) => ({
    subject: `${unsavedCount} 個のアプリケーションのスナップショットが作成できていません`,
    text: `${unsavedCount} 個のアプリケーションで、数日間スナップショットが完了していません（括弧内は日数）: ${unsaved}。

アプリケーション自体に影響はなく、Berth は引き続き作成を試みます。ファイルが数十万個ある場合は、不要なものを削除してください。大きなファイルを常に書き換えている場合は、書き込みを減らすか、しばらく停止してください。それ以外の場合はサポートにご連絡ください。それまでは、大切なファイルをご自身でバックアップしてください。`,
  }),
  'fr-FR': ({ unsaved, unsavedCount }) => ({
    subject: `Il manque des instantanés de ${unsavedCount} applications`,
    text: `Depuis des jours, aucun instantané de ${unsavedCount} de vos applications n'a abouti (nombre de jours entre parenthèses) : ${unsaved}.

Les applications elles-mêmes ne sont pas touchées, et les essais continuent. Si elles ont des centaines de milliers de fichiers, supprimez ceux qui sont inutiles ; si elles réécrivent sans cesse de gros fichiers, faites-les écrire moins ou arrêtez-les un moment. Sinon, contactez le support. D'ici là, sauvegardez vous-même les fichiers importants.`,
  }),
  'de-DE': ({ unsaved, unsavedCount }) => ({
    subject: `${unsavedCount} Anwendungen fehlen Snapshots`,
    text: `Seit Tagen ist von ${unsavedCount} Ihrer Anwendungen kein Snapshot gelungen (die Zahl der Tage steht in Klammern): ${unsaved}.

Die Anwendungen selbst sind nicht betroffen, und Berth versucht es weiter. Haben sie Hunderttausende Dateien, löschen Sie die, die sie nicht brauchen; schreiben sie ständig große Dateien neu, lassen Sie sie weniger schreiben, oder halten Sie sie eine Weile an. Andernfalls wenden Sie sich an den Support. Sichern Sie bis dahin wichtige Dateien selbst.`,
  }),
  'it-IT': ({ unsaved, unsavedCount }) => ({
    subject: `Mancano snapshot di ${unsavedCount} applicazioni`,
    text: `Da giorni nessuno snapshot di ${unsavedCount} delle tue applicazioni viene completato (il numero di giorni è tra parentesi): ${unsaved}.

Le applicazioni in sé non sono interessate, e i tentativi continuano. Se hanno centinaia di migliaia di file, elimina quelli che non servono; se riscrivono di continuo file grandi, falle scrivere meno o fermale per un po'. Altrimenti contatta l'assistenza. Fino ad allora, salva tu i file importanti.`,
  }),
}

const severalDatabases: MailTemplate<Several> = {
  'pt-BR': ({ unsaved, unsavedCount }) => ({
    subject: `Faltam snapshots de ${unsavedCount} bancos de dados`,
    text: `Nenhum snapshot de ${unsavedCount} dos seus bancos de dados é concluído há dias (o número de dias está entre parênteses): ${unsaved}.

Os bancos de dados em si não são afetados, e o Berth continua tentando. Se estiverem parados por um erro, ou sem espaço em disco, resolva isso primeiro; se não, fale com o suporte. Até lá, faça você mesmo uma cópia dos dados importantes.`,
  }),
  'en-US': ({ unsaved, unsavedCount }) => ({
    subject: `Snapshots of ${unsavedCount} databases are missing`,
    text: `No snapshot of ${unsavedCount} of your databases has been completed for days (their number is in parentheses): ${unsaved}.

The databases themselves are not affected, and Berth keeps retrying. If they are down because of an error, or have no disk space left, resolve that first; otherwise contact support. Until then, export the data that matter to you yourself.`,
  }),
  'es-ES': ({ unsaved, unsavedCount }) => ({
    subject: `Faltan snapshots de ${unsavedCount} bases de datos`,
    text: `Desde hace días no se completa ningún snapshot de ${unsavedCount} de tus bases de datos (entre paréntesis, el número de días): ${unsaved}.

Las bases de datos en sí no están afectadas, y se sigue intentando. Si están detenidas por un error, o no les queda espacio en disco, resuélvelo primero; si no, contacta con el soporte. Hasta entonces, haz tú una copia de los datos importantes.`,
  }),
  'zh-CN': ({ unsaved, unsavedCount }) => ({
    subject: `${unsavedCount} 个数据库缺少快照`,
    text: `您的 ${unsavedCount} 个数据库已有数天未能成功创建快照（括号内为天数）：${unsaved}。

这些数据库本身不受影响，系统会继续尝试。如果数据库因错误停止运行，或者磁盘空间已满，请先解决该问题；否则请联系支持人员。在此之前，请自行备份重要数据。`,
  }),
  'ja-JP': ({ unsaved, unsavedCount }) => ({
    subject: `${unsavedCount} 個のデータベースのスナップショットが作成できていません`,
    text: `${unsavedCount} 個のデータベースで、数日間スナップショットが完了していません（括弧内は日数）: ${unsaved}。

データベース自体に影響はなく、Berth は引き続き作成を試みます。エラーで停止している場合やディスクの空きがない場合は、先にそれを解決してください。それ以外の場合はサポートにご連絡ください。それまでは、大切なデータをご自身でバックアップしてください。`,
  }),
  'fr-FR': ({ unsaved, unsavedCount }) => ({
    subject: `Il manque des instantanés de ${unsavedCount} bases de données`,
    text: `Depuis des jours, aucun instantané de ${unsavedCount} de vos bases de données n'a abouti (nombre de jours entre parenthèses) : ${unsaved}.

Les bases de données elles-mêmes ne sont pas touchées, et les essais continuent. Si elles sont à l'arrêt à cause d'une erreur, ou si leur disque est plein, réglez cela d'abord ; sinon, contactez le support. D'ici là, sauvegardez vous-même les données importantes.`,
  }),
  'de-DE': ({ unsaved, unsavedCount }) => ({
    subject: `${unsavedCount} Datenbanken fehlen Snapshots`,
    text: `Seit Tagen ist von ${unsavedCount} Ihrer Datenbanken kein Snapshot gelungen (die Zahl der Tage steht in Klammern): ${unsaved}.

Die Datenbanken selbst sind nicht betroffen, und Berth versucht es weiter. Stehen sie wegen eines Fehlers still, oder ist ihre Festplatte voll, beheben Sie das zuerst; andernfalls wenden Sie sich an den Support. Sichern Sie bis dahin wichtige Daten selbst.`,
  }),
  'it-IT': ({ unsaved, unsavedCount }) => ({
    subject: `Mancano snapshot di ${unsavedCount} database`,
    text: `Da giorni nessuno snapshot di ${unsavedCount} dei tuoi database viene completato (il numero di giorni è tra parentesi): ${unsaved}.

I database in sé non sono interessati, e i tentativi continuano. Se sono fermi per un errore, o non hanno più spazio su disco, risolvi prima questo; altrimenti contatta l'assistenza. Fino ad allora, esporta tu i dati importanti.`,
  }),
}

/** One text for one, another for several. A mail that an earlier version has queued has no number, and is about one. */
const forOneOrMore = <One extends MailFields>(one: MailTemplate<One>, several: MailTemplate<Several>) =>
  Object.fromEntries(
    mailLocales.map(locale => [
      locale,
      (fields: One & Several) => (fields.unsavedCount > 1 ? several : one)[locale](fields),
    ]),
  ) as MailTemplate<One & Several>

/** Applications of an account without a good snapshot for some days. `app` and `days` are those of the first. */
export const appSnapshotsFailing = forOneOrMore(oneApp, severalApps)

/** Databases of an account without a good snapshot for some days. `database` and `days` are those of the first. */
export const databaseSnapshotsFailing = forOneOrMore(oneDatabase, severalDatabases)
