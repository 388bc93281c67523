// Uploads a file of this disk with tus-js-client: `upload.mjs URL PATH PIECE STOP`. Prints the address
// it has, and how much was sent. With STOP it ends itself after so many bytes, and goes on from an
// address if URL is one of an upload that has begun.
import { createReadStream, statSync } from "node:fs";
import { Upload } from "tus-js-client";

const [url, path, piece, stop] = process.argv.slice(2);
const isBegun = /\/files\/./.test(url);
const upload = new Upload(createReadStream(path), {
  ...(isBegun ? { uploadUrl: url } : { endpoint: url }),
  protocol: "ietf-draft-05",
  chunkSize: Number(piece),
  uploadSize: statSync(path).size,
  retryDelays: [100, 100, 100],
  onChunkComplete(_, accepted) {
    if (stop && accepted >= Number(stop)) {
      console.log(upload.url);
      process.exit(3);
    }
  },
  onError(error) {
    console.error(String(error));
    process.exit(1);
  },
  onSuccess() {
    console.log(upload.url);
  },
});
upload.start();
